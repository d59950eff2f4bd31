#include "qkv/models/patch_dropout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace qkv::models {

int64_t kept_count(int64_t patches, float rate) {
  return std::max<int64_t>(1, std::llround(static_cast<double>(patches) * (1.0 - double{rate})));
}

std::vector<int32_t> kept_patches(int64_t images, int64_t patches, const kernels::Dropout& dropout) {
  const int64_t kept = kept_count(patches, dropout.rate);
  std::vector<int32_t> all, order(static_cast<size_t>(patches));
  all.reserve(static_cast<size_t>(images * kept));
  for (int64_t image = 0; image < images; ++image) {
    const uint32_t row = dropout.first_row + static_cast<uint32_t>(image);
    std::iota(order.begin(), order.end(), static_cast<int32_t>(image * patches));
    // The first `kept` steps of Fisher and Yates' shuffle.
    for (int64_t i = 0; i < kept; ++i) {
      const uint32_t bits =
          philox4x32(dropout.seed, {row, static_cast<uint32_t>(i), dropout.site, dropout.step})[0];
      const auto rest = static_cast<uint64_t>(patches - i);
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(i) + ((bits * rest) >> 32)]);
    }
    std::sort(order.begin(), order.begin() + kept);
    all.insert(all.end(), order.begin(), order.begin() + kept);
  }
  return all;
}

}  // namespace qkv::models
