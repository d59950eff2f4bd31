#pragma once
// Caches the tokens of pieces, because most words of a text repeat.

#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "qkv/base/string_index.h"
#include "qkv/text/steps/normalized_string.h"
#include "qkv/text/token_models/token_models.h"

namespace qkv::text {

// Not thread-safe.
class WordCache {
 public:
  // The model's tokens for a piece; valid until the next call.
  std::span<const Token> tokens(std::string_view piece, const TokenModel& model);

 private:
  static constexpr size_t kLongest = 64;     // maximum bytes of a cached piece
  static constexpr size_t kMost = 1u << 16;  // maximum number of pieces; the cache is then cleared

  StringIndex pieces_;
  std::vector<Range> ranges_;  // range of each piece in tokens_
  std::vector<Token> tokens_, last_;
};

// Caches for concurrent encoders: as many as the maximum number of concurrent calls.
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
