#pragma once
// Tokens and their ids, both ways.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/string_index.h"

namespace qkv::text {

class TokenTable {
 public:
  // More than any vocabulary has; an id beyond it is a broken file.
  static constexpr int64_t kMaxIds = 1 << 22;

  // `name` (a file) is named in errors. Throws DataError for an id outside 0..kMaxIds and for one that two
  // tokens have.
  void add(std::string_view token, int64_t id, const std::string& name);

  // The id of a token, or -1.
  int32_t find(std::string_view token) const { return ids_.find(token); }

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
