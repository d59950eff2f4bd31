#pragma once
// A bidirectional map between tokens and ids.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/json.h"
#include "qkv/base/string_index.h"

namespace qkv::text {

class Vocabulary {
 public:
  // An upper bound for any real vocabulary; a larger id means a corrupt file.
  static constexpr int64_t kMaxIds = 1 << 22;

  // Reads an object of tokens and ids: a vocab.json, or the "vocab" of a tokenizer.json. Throws DataError
  // naming the member with an invalid id.
  static Vocabulary from_json(const JsonValue& object);
  // The inverse: one token per line, in order of ids.
  std::string to_json() const;

  // `name` (a file) is used in errors. Throws DataError for an id outside 0..kMaxIds-1 and for a repeated id.
  void add(std::string_view token, int64_t id, const std::string& name);

  // The id of a token, or -1.
  int32_t find(std::string_view token) const { return ids_.find(token); }
  // Likewise; throws DataError beginning with `name` if absent.
  int32_t require(std::string_view token, const std::string& name) const;

  bool has(int64_t id) const { return id >= 0 && id < size() && known_[static_cast<size_t>(id)]; }
  // Throws UsageError for an id without a token.
  const std::string& token(int32_t id) const {
    if (!has(id)) [[unlikely]]
      throw_unknown(id);
    return tokens_[static_cast<size_t>(id)];
  }

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }  // largest id + 1
  int64_t count() const { return count_; }                               // number of tokens

 private:
  [[noreturn]] void throw_unknown(int64_t id) const;

  StringIndex ids_;
  std::vector<std::string> tokens_;
  std::vector<bool> known_;
  int64_t count_ = 0;
};

}  // namespace qkv::text
