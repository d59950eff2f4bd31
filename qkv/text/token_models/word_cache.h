#pragma once
// The tokens of pieces that were seen before: most words of a text repeat.

#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "qkv/base/string_index.h"
#include "qkv/text/steps/normalized_string.h"
#include "qkv/text/token_models/token_models.h"

namespace qkv::text {

// For one thread at a time.
class WordCache {
 public:
  // The model's tokens for a piece; valid until the next call.
  std::span<const Token> tokens(std::string_view piece, const TokenModel& model);

 private:
  static constexpr size_t kLongest = 64;     // bytes of a piece worth keeping
  static constexpr size_t kMost = 1u << 16;  // pieces; then the cache is emptied

  StringIndex pieces_;
  std::vector<Range> ranges_;  // of each piece, in tokens_
  std::vector<Token> tokens_, last_;
};

// Caches for concurrent encoders: as many as threads have encoded at once.
class WordCachePool {
 public:
  class Lease {
   public:
    Lease(WordCachePool& pool, std::unique_ptr<WordCache> cache) : pool_(pool), cache_(std::move(cache)) {}
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    WordCache& operator*() const { return *cache_; }

   private:
    WordCachePool& pool_;
    std::unique_ptr<WordCache> cache_;
  };

  Lease lease();

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<WordCache>> free_;
};

}  // namespace qkv::text
