#include "qkv/data/images/augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"

namespace qkv::data {
namespace {

// Different uses of one key have different streams.
enum class Use : uint32_t { augment = 0xDA7A'0003, mixup = 0xDA7A'0004 };

RandomStream stream_of(const ImageKey& key, Use use) {
  const auto image = static_cast<uint64_t>(key.image);
  const PhiloxCounter numbers =
      philox4x32(key.seed, {static_cast<uint32_t>(image), static_cast<uint32_t>(image >> 32),
                            static_cast<uint32_t>(key.epoch), static_cast<uint32_t>(use)});
  return RandomStream(uint64_t{numbers[0]} << 32 | numbers[1], uint64_t{numbers[2]} << 32 | numbers[3]);
}

constexpr int64_t kOutside = -1;

// The source of each of `count` rows or columns that begin at `first`; kOutside: none.
std::vector<int64_t> places(int64_t count, int64_t first, CropFill fill) {
  std::vector<int64_t> sources;
  for (int64_t i = first; i < first + count; ++i) {
    if (i >= 0 && i < count) {
      sources.push_back(i);
    } else if (fill == CropFill::zero) {
      sources.push_back(kOutside);
    } else {
      sources.push_back(i < 0 ? -i : 2 * (count - 1) - i);
    }
  }
  return sources;
}

int64_t below(int64_t bound, RandomStream& random) {
  return static_cast<int64_t>(random.below(static_cast<uint64_t>(bound)));
}

float between(float least, float most, RandomStream& random) {
  return least + (most - least) * random.uniform();
}

// Zhong et al. 2020, algorithm 1; as in the authors' code, a rectangle that does not fit is drawn again, at
// most 100 times.
void erase(const ImageExtents& extents, const AugmentOptions& options, RandomStream& random,
           std::span<uint8_t> pixels) {
  constexpr int kTries = 100;
  const auto area = static_cast<float>(extents.height * extents.width);
  for (int i = 0; i < kTries; ++i) {
    const float share = between(options.erase_least, options.erase_most, random) * area;
    const float aspect = between(options.erase_aspect, 1 / options.erase_aspect, random);
    const auto height = static_cast<int64_t>(std::lround(std::sqrt(share * aspect)));
    const auto width = static_cast<int64_t>(std::lround(std::sqrt(share / aspect)));
    if (height < 1 || width < 1 || height >= extents.height || width >= extents.width) continue;
    const int64_t top = below(extents.height - height + 1, random);
    const int64_t left = below(extents.width - width + 1, random);
    for (int64_t c = 0; c < extents.channels; ++c) {
      for (int64_t y = top; y < top + height; ++y) {
        uint8_t* row = pixels.data() + (c * extents.height + y) * extents.width;
        for (int64_t x = left; x < left + width; ++x) row[x] = static_cast<uint8_t>(random.next() >> 24);
      }
    }
    return;
  }
}

// The logarithm of a number from Gamma(shape, 1) (Marsaglia and Tsang 2000); for shapes below 1,
// Gamma(shape + 1) U^(1 / shape). The logarithm, as small shapes give numbers below any float's range.
double log_gamma_number(double shape, RandomStream& random) {
  const auto uniform = [&] { return 1.0 - static_cast<double>(random.uniform()); };  // in (0, 1]
  double boost = 0;
  if (shape < 1) {
    boost = std::log(uniform()) / shape;
    shape += 1;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    // Box-Muller transform (1958).
    const double radius = std::sqrt(-2 * std::log(uniform()));
    const double x = radius * std::cos(2 * std::numbers::pi * uniform());
    const double v = 1 + c * x;
    if (v <= 0) continue;
    const double cube = v * v * v;
    if (std::log(uniform()) < 0.5 * x * x + d - d * cube + d * std::log(cube))
      return std::log(d * cube) + boost;
  }
}

void require(const char* field, double value, bool holds, const std::string& expected) {
  if (!holds) throw UsageError(concat("augment.", field, ": expected ", expected, ", found ", value));
}

}  // namespace

void AugmentOptions::validate(int64_t height, int64_t width) const {
  const int64_t side = std::min(height, width);
  require("crop_padding", static_cast<double>(crop_padding), crop_padding >= 0 && crop_padding < side,
          concat("0 to ", side - 1, ", less than the image's side"));
  const auto share = [](const char* field, float value) {
    require(field, static_cast<double>(value), value >= 0 && value <= 1, "0 to 1");
  };
  share("flip", flip);
  share("erase", erase);
  share("erase_least", erase_least);
  require("erase_most", static_cast<double>(erase_most), erase_most >= erase_least && erase_most <= 1,
          concat(erase_least, " to 1"));
  require("erase_aspect", static_cast<double>(erase_aspect), erase_aspect > 0 && erase_aspect <= 1,
          "more than 0, to 1");
}

void augment(std::span<const uint8_t> from, const ImageExtents& extents, const AugmentOptions& options,
             const ImageKey& key, std::span<uint8_t> to) {
  RandomStream random = stream_of(key, Use::augment);
  // All numbers are drawn whether an option is on or off, so that the options do not affect each other.
  const int64_t spread = 2 * options.crop_padding + 1;
  const int64_t top = below(spread, random) - options.crop_padding;
  const int64_t left = below(spread, random) - options.crop_padding;
  const bool flips = random.uniform() < options.flip, erases = random.uniform() < options.erase;
  const std::vector<int64_t> rows = places(extents.height, top, options.crop_fill);
  std::vector<int64_t> columns = places(extents.width, left, options.crop_fill);
  if (flips) std::ranges::reverse(columns);
  uint8_t* next = to.data();
  for (int64_t c = 0; c < extents.channels; ++c) {
    for (const int64_t row : rows) {
      if (row == kOutside) {
        next = std::fill_n(next, extents.width, uint8_t{0});
        continue;
      }
      const uint8_t* source = from.data() + (c * extents.height + row) * extents.width;
      for (const int64_t column : columns) *next++ = column == kOutside ? uint8_t{0} : source[column];
    }
  }
  if (erases) erase(extents, options, random, to);
}

float mixup_weight(float alpha, const ImageKey& key) {
  RandomStream random = stream_of(key, Use::mixup);
  const double x = log_gamma_number(alpha, random), y = log_gamma_number(alpha, random);
  return static_cast<float>(1 / (1 + std::exp(y - x)));  // e^x / (e^x + e^y)
}

}  // namespace qkv::data
