#include "qkv/text/token_models/word_cache.h"

#include <new>

namespace qkv::text {

std::span<const Token> WordCache::tokens(std::string_view piece, const TokenModel& model) {
  if (piece.size() > kLongest) {
    last_.clear();
    model.tokenize(piece, last_);
    return last_;
  }
  int32_t place = pieces_.find(piece);
  if (place == StringIndex::kNone) {
    if (pieces_.size() == kMost) {
      pieces_.clear();
      ranges_.clear();
      tokens_.clear();
    }
    const auto begin = static_cast<uint32_t>(tokens_.size());
    model.tokenize(piece, tokens_);
    place = static_cast<int32_t>(ranges_.size());
    ranges_.push_back({begin, static_cast<uint32_t>(tokens_.size())});
    pieces_.set(piece, place);
  }
  const Range range = ranges_[static_cast<size_t>(place)];
  return std::span(tokens_).subspan(range.begin, range.size());
}

WordCachePool::Lease WordCachePool::lease() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return {*this, std::make_unique<WordCache>()};
  std::unique_ptr<WordCache> cache = std::move(free_.back());
  free_.pop_back();
  return {*this, std::move(cache)};
}

WordCachePool::Lease::~Lease() {
  const std::lock_guard lock(pool_.mutex_);
  try {
    pool_.free_.push_back(std::move(cache_));
  } catch (const std::bad_alloc&) {  // the next one begins empty
  }
}

}  // namespace qkv::text
