#pragma once
// Source to tokens, as jinja2/lexer.py does with trim_blocks and lstrip_blocks.

#include <string>
#include <string_view>
#include <vector>

#include "qkv/jinja/value.h"

namespace qkv::jinja {

struct Token {
  enum class Kind {
    data,
    block_begin,
    block_end,
    variable_begin,
    variable_end,
    name,
    string,
    integer,
    number,
    op,
    end
  };
  Kind kind = Kind::end;
  int line = 1;
  std::string text;  // of data, names, strings (unescaped) and operators
  Value value;       // of numbers
};

// Throws DataError "<name>: line <line>: ...".
std::vector<Token> tokenize(std::string_view source, const std::string& name);

// "<name>: line <line>: <what>"
[[noreturn]] void fail_at(const std::string& name, int line, const std::string& what);

}  // namespace qkv::jinja
