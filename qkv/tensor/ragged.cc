#include "qkv/tensor/ragged.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace qkv {

Offsets::Offsets(std::vector<int32_t> offsets) {
  if (offsets.empty() || offsets.front() != 0) throw ShapeError("offsets: the first must be 0");
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      throw ShapeError(concat("offsets: number ", i, " falls from ", offsets[i - 1], " to ", offsets[i]));
    }
    max_length_ = std::max<int64_t>(max_length_, offsets[i] - offsets[i - 1]);
  }
  offsets_ = std::make_shared<const std::vector<int32_t>>(std::move(offsets));
}

void Offsets::throw_outside(int64_t index) const {
  throw ShapeError(concat("offsets: expected a sequence from 0 to ", sequences() - 1, ", found ", index));
}

Offsets Offsets::of_lengths(std::span<const int32_t> lengths) {
  std::vector<int32_t> offsets{0};
  offsets.reserve(lengths.size() + 1);
  int64_t total = 0;
  for (const int32_t length : lengths) {
    total += length;
    if (length < 0 || total > std::numeric_limits<int32_t>::max()) {
      throw ShapeError(concat("offsets: a length of ", length, " brings the batch to ", total, " tokens"));
    }
    offsets.push_back(static_cast<int32_t>(total));
  }
  return Offsets(std::move(offsets));
}

Offsets Offsets::uniform(int64_t batch, int64_t length) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (batch < 0 || length < 0 || batch > kMost || length > kMost || batch * length > kMost) {
    throw ShapeError(
        concat("offsets: expected fewer than 2^31 tokens, found ", batch, " sequences of ", length));
  }
  return of_lengths(std::vector<int32_t>(static_cast<size_t>(batch), static_cast<int32_t>(length)));
}

}  // namespace qkv
