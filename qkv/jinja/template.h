#pragma once
// Chat templates: the subset of Jinja that the templates of language models use, with the results of Python's
// jinja2 3.1 in the settings of transformers (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks,
// loopcontrols, `generation` blocks). docs/chat-templates.md lists what is supported.

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "qkv/jinja/value.h"

namespace qkv::jinja {

// Templates are untrusted programs. Exceeding a limit is a DataError.
struct Limits {
  size_t output_bytes = size_t{16} << 20;   // of the result, and of any text made on the way
  size_t memory_bytes = size_t{256} << 20;  // of all texts and containers alive at a time
  int64_t steps = 20'000'000;               // expressions, statements, items, and kilobytes of text
  int depth = 1000;                         // nested evaluations, which bounds the use of the stack
};

// The local time, for strftime_now.
using Clock = std::function<std::tm()>;
std::tm local_time();

class Template {
 public:
  // Parses. `name` begins all messages. Throws DataError with the line for a syntax error, for bytes that are
  // not UTF-8, and for what is not supported: tags, filters, tests.
  Template(std::string_view source, std::string name);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  // Renders with these variables: messages, tools, add_generation_prompt, bos_token, ... Texts must be valid
  // UTF-8. Throws DataError with the line: the message of raise_exception, an operation that Python refuses,
  // an operation that is not supported, an exceeded limit. Safe to call from several threads.
  std::string render(const Dict& context, const Limits& limits = {}, const Clock& clock = local_time) const;

 private:
  struct Parsed;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace qkv::jinja
