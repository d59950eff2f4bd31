// Parses a chat template and renders it, under small limits, with a conversation: that of the input after a
// zero byte, or else a fixed one.

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/base/json.h"
#include "qkv/jinja/template.h"

namespace qkv::fuzz {
namespace {

constexpr std::string_view kConversation = R"({"messages": [{"role": "system", "content": "S"},
  {"role": "user", "content": [{"type": "text", "text": "é \"x\""}, {"type": "image"}]},
  {"role": "assistant", "content": "<think>\na</think>b", "tool_calls": [{"id": "abcdefghi", "type": "function",
   "function": {"name": "f", "arguments": {"a": [1, 2.5, null, true]}}}]}, {"role": "tool", "content": ""}],
  "tools": [{"type": "function", "function": {"name": "f", "description": "D", "parameters": {"type": "object",
   "properties": {"a": {"type": "array", "items": {"type": "number"}}}, "required": ["a"]}}}],
  "s": "Hello", "n": 5, "l": [3, "x", null], "d": {"a": 1}, "add_generation_prompt": true, "bos_token": "<s>"})";

void read(std::string_view bytes) {
  using namespace jinja;
  const size_t end = bytes.find('\0');
  const std::string_view context = end == std::string_view::npos ? kConversation : bytes.substr(end + 1);
  const Template parsed(bytes.substr(0, end), "fuzz.jinja");
  const Value variables = Value::of_json(parse_json(context, "fuzz.json"));
  if (variables.is_dict())
    parsed.render(variables.dict(),
                  {.output_bytes = 1 << 16, .memory_bytes = 1 << 22, .steps = 50'000, .depth = 300});
}

std::vector<std::string> seeds() {
  std::vector<std::string> all = golden_files({"jinja/templates"}, ".jinja");
  for (const std::string& file : golden_files({"jinja/golden"}, "expressions.json")) {
    for (const JsonValue& one : parse_json(file, "expressions.json")["cases"].items())
      all.push_back(one.items()[0].string());
  }
  return all;
}

}  // namespace

const Reader chat_template{"chat_template", read, seeds};

}  // namespace qkv::fuzz
