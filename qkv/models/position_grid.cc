#include "qkv/models/position_grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "qkv/base/error.h"

namespace qkv::models {
namespace {

// Four source positions along an axis, and their weights.
struct Taps {
  std::array<int64_t, 4> places;
  std::array<double, 4> weights;
};

double cubic(double distance) {
  constexpr double a = -0.75;
  const double d = std::abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

std::vector<Taps> taps_of(int64_t from, int64_t to) {
  std::vector<Taps> taps(static_cast<size_t>(to));
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const auto below = static_cast<int64_t>(std::floor(at));
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t place = below - 1 + k;
      Taps& one = taps[static_cast<size_t>(i)];
      one.places[static_cast<size_t>(k)] = std::clamp<int64_t>(place, 0, from - 1);
      one.weights[static_cast<size_t>(k)] = cubic(at - static_cast<double>(place));
    }
  }
  return taps;
}

}  // namespace

Tensor interpolate_positions(const Tensor& positions, int64_t own, ImageSize from, ImageSize to) {
  const int64_t features = positions.cols();
  if (positions.rank() != 2 || positions.dim(0) != own + from.height * from.width || to.height < 1 ||
      to.width < 1) {
    throw ShapeError(concat("positions: expected [", own, " + ", from.height, " * ", from.width,
                            ", features] for a grid of at least 1 x 1, found ", positions.shape(), " for ",
                            to.height, " x ", to.width));
  }
  Tensor result = Tensor::empty({own + to.height * to.width, features});
  result.slice_rows(0, own).copy_from(positions.slice_rows(0, own));
  const std::vector<Taps> down = taps_of(from.height, to.height), across = taps_of(from.width, to.width);
  std::vector<double> sums(static_cast<size_t>(features));
  float* out = result.data() + own * features;
  for (const Taps& y : down) {
    for (const Taps& x : across) {
      std::ranges::fill(sums, 0.0);
      for (size_t i = 0; i < 4; ++i) {
        for (size_t j = 0; j < 4; ++j) {
          const double weight = y.weights[i] * x.weights[j];
          const int64_t row = own + y.places[i] * from.width + x.places[j];
          const float* values = positions.data() + row * positions.row_stride();
          for (size_t c = 0; c < sums.size(); ++c) sums[c] += weight * double{values[c]};
        }
      }
      out = std::ranges::transform(sums, out, [](double sum) { return static_cast<float>(sum); }).out;
    }
  }
  return result;
}

Tensor sinusoidal_grid(ImageSize grid, int64_t features) {
  for (const auto& [name, value] :
       {std::pair{"height", grid.height}, {"width", grid.width}, {"features", features}}) {
    if (value < 1)
      throw UsageError(concat("sinusoidal grid: expected a ", name, " of 1 or more, found ", value));
  }
  const int64_t quarter = features / 4;
  Tensor result = Tensor::zeros({grid.height * grid.width, features});
  float* row = result.data();
  for (int64_t y = 0; y < grid.height; ++y) {
    for (int64_t x = 0; x < grid.width; ++x, row += features) {
      for (int64_t i = 0; i < quarter; ++i) {
        const double frequency = std::pow(100.0, -static_cast<double>(i) / static_cast<double>(quarter));
        const double across = static_cast<double>(x) * frequency, down = static_cast<double>(y) * frequency;
        row[i] = static_cast<float>(std::sin(across));
        row[quarter + i] = static_cast<float>(std::cos(across));
        row[2 * quarter + i] = static_cast<float>(std::sin(down));
        row[3 * quarter + i] = static_cast<float>(std::cos(down));
      }
    }
  }
  return result;
}

}  // namespace qkv::models
