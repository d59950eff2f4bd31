#pragma once
// Tokens to a syntax tree, as jinja2/parser.py does.

#include <string>
#include <string_view>

#include "qkv/jinja/syntax/syntax.h"

namespace qkv::jinja {

// Throws DataError "<name>: line <line>: ..." for invalid syntax and for what is not supported.
Body parse(std::string_view source, const std::string& name);

}  // namespace qkv::jinja
