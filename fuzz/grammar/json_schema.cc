// Makes the grammar of a JSON schema, and one of its texts, whose bytes the input's hash draws: JSON again.

#include <cstdint>
#include <random>

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/base/error.h"
#include "qkv/base/hash.h"
#include "qkv/base/json.h"
#include "qkv/grammar/json_schema.h"
#include "qkv/grammar/machine.h"

namespace qkv::fuzz {
namespace {

void read(std::string_view bytes) {
  grammar::Machine machine(grammar::grammar_of_json_schema(std::string(bytes), "fuzz.json"));
  Hash64 hash;
  hash.add(bytes.data(), bytes.size());
  std::minstd_rand random(static_cast<uint32_t>(hash.value()));
  std::string text;
  grammar::Machine::State state = machine.start();
  for (int i = 0; i < 500; ++i) {
    std::vector<uint8_t> next;
    for (int byte = 0; byte < 256; ++byte) {
      if (machine.next(state, static_cast<uint8_t>(byte)) != grammar::Machine::kDead)
        next.push_back(static_cast<uint8_t>(byte));
    }
    if (next.empty()) break;
    text += static_cast<char>(next[random() % next.size()]);
    state = machine.next(state, static_cast<uint8_t>(text.back()));
  }
  if (!machine.may_end(state)) return;
  try {
    parse_json(text, "text", {.max_depth = 1000});
  } catch (const DataError& error) {
    throw std::logic_error(error.what());  // a finding
  }
}

std::vector<std::string> seeds() {
  return {
      R"({"type": "object"})",
      R"({"type": "object", "properties": {"a": {"type": "string", "minLength": 1, "maxLength": 9}, "b": {"type":
"array", "items": {"$ref": "#"}, "maxItems": 2}}, "required": ["a"], "additionalProperties": false})",
      R"({"anyOf": [{"type": ["integer", "null"], "minimum": -12, "exclusiveMaximum": 345}, {"enum": [1, "x", null, {"a": [true]}]}]})",
      R"({"$defs": {"n": {"prefixItems": [{"const": 1}, {"type": "number"}], "items": false}}, "$ref": "#/$defs/n"})"};
}

}  // namespace

const Reader json_schema{"json_schema", read, seeds};

}  // namespace qkv::fuzz
