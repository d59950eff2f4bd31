#include "qkv/text/token_models/vocabulary.h"

#include "qkv/base/error.h"

namespace qkv::text {

Vocabulary Vocabulary::from_json(const JsonValue& object) {
  const std::string path = object.path();
  Vocabulary vocabulary;
  object.members(
      [&](std::string_view token, const JsonValue& id) { vocabulary.add(token, id.integer(), path); });
  return vocabulary;
}

std::string Vocabulary::to_json() const {
  std::string json = "{\n";
  int64_t left = count_;
  for (int32_t id = 0; id < size(); ++id) {
    if (!has(id)) continue;
    json.append("  ").append(quoted_json(token(id))).append(": ").append(std::to_string(id));
    json += --left > 0 ? ",\n" : "\n";
  }
  return json + "}\n";
}

void Vocabulary::add(std::string_view token, int64_t id, const std::string& name) {
  if (id < 0 || id >= kMaxIds) {
    throw DataError(
        concat(name, ": expected ids of 0 to ", kMaxIds - 1, ", found ", id, " for the token '", token, "'"));
  }
  const auto at = static_cast<size_t>(id);
  if (at >= tokens_.size()) {
    tokens_.resize(at + 1);
    known_.resize(at + 1);
  }
  if (known_[at] && tokens_[at] != token) {
    throw DataError(concat(name, ": expected an id of its own for every token, found ", id, " for '",
                           tokens_[at], "' and for '", token, "'"));
  }
  count_ += !known_[at];
  tokens_[at] = token;
  known_[at] = true;
  ids_.set(token, static_cast<int32_t>(id));
}

void Vocabulary::throw_unknown(int64_t id) const {
  throw UsageError(concat("vocabulary: expected the id of one of ", count_, " tokens, found ", id));
}

int32_t Vocabulary::require(std::string_view token, const std::string& name) const {
  const int32_t id = find(token);
  if (id < 0) throw DataError(concat(name, ": expected the token '", token, "', found none"));
  return id;
}

}  // namespace qkv::text
