#pragma once
// Tokens and their ids, both ways.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/json.h"
#include "qkv/base/string_index.h"

namespace qkv::text {

class Vocabulary {
 public:
  // More than any vocabulary has; an id beyond it is a broken file.
  static constexpr int64_t kMaxIds = 1 << 22;

  // From an object of tokens and ids: a vocab.json, or the "vocab" of a tokenizer.json. Throws DataError
  // naming the member for an id that is none.
  static Vocabulary from_json(const JsonValue& object);
  // The inverse: one token a line, in the order of the ids.
  std::string to_json() const;

  // `name` (a file) is named in errors. Throws DataError for an id outside 0..kMaxIds and for one that two
  // tokens have.
  void add(std::string_view token, int64_t id, const std::string& name);

  // The id of a token, or -1.
  int32_t find(std::string_view token) const { return ids_.find(token); }
  // The same; throws DataError beginning with `name` where there is none.
  int32_t require(std::string_view token, const std::string& name) const;

  bool has(int64_t id) const { return id >= 0 && id < size() && known_[static_cast<size_t>(id)]; }
  const std::string& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }  // has(id)

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }  // one more than the largest id
  int64_t count() const { return count_; }                               // of tokens

 private:
  StringIndex ids_;
  std::vector<std::string> tokens_;
  std::vector<bool> known_;
  int64_t count_ = 0;
};

}  // namespace qkv::text
