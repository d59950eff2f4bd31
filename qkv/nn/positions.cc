#include "qkv/nn/positions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

namespace qkv::nn {

Tensor sinusoidal_positions(PositionKind kind, int64_t count, int64_t d_model) {
  if (kind != PositionKind::sinusoidal_interleaved && kind != PositionKind::sinusoidal_halves) {
    throw UsageError("sinusoidal_positions: the kind must be sinusoidal_interleaved or sinusoidal_halves");
  }
  Tensor table = Tensor::empty({count, d_model});
  const int64_t sines = (d_model + 1) / 2;
  for (int64_t i = 0; i < sines; ++i) {
    const double frequency = std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(d_model));
    const int64_t sine = kind == PositionKind::sinusoidal_halves ? i : 2 * i;
    const int64_t cosine = kind == PositionKind::sinusoidal_halves ? sines + i : 2 * i + 1;
    for (int64_t place = 0; place < count; ++place) {
      const double angle = static_cast<double>(place) * frequency;
      table.data()[place * d_model + sine] = static_cast<float>(std::sin(angle));
      if (cosine < d_model) table.data()[place * d_model + cosine] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

RotaryTable rotary_table(double base, int64_t d, int64_t count) {
  static std::mutex mutex;
  static auto* tables = new std::map<std::pair<double, int64_t>, RotaryTable>;
  const std::lock_guard lock(mutex);
  RotaryTable& table = (*tables)[{base, d}];
  const int64_t half = d / 2, places = table.cosines.defined() ? table.cosines.rows() : 0;
  if (places >= count) return table;
  const int64_t longer = std::max(count, std::max<int64_t>(256, 2 * places));
  table = {Tensor::empty({longer, half}), Tensor::empty({longer, half})};
  for (int64_t i = 0; i < half; ++i) {
    // In single precision, as the models that use these angles were trained with them.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(d);
    const float frequency = 1.0f / static_cast<float>(std::pow(base, double{exponent}));
    for (int64_t place = 0; place < longer; ++place) {
      const float angle = static_cast<float>(place) * frequency;
      table.cosines.data()[place * half + i] = static_cast<float>(std::cos(double{angle}));
      table.sines.data()[place * half + i] = static_cast<float>(std::sin(double{angle}));
    }
  }
  return table;
}

Tensor position_ids(const Offsets& offsets) {
  Tensor ids = Tensor::empty({offsets.tokens()}, DType::i32);
  for (int64_t sequence = 0; sequence < offsets.sequences(); ++sequence) {
    for (int64_t i = 0; i < offsets.length(sequence); ++i) {
      ids.data<int32_t>()[offsets.begin(sequence) + i] = static_cast<int32_t>(i);
    }
  }
  return ids;
}

}  // namespace qkv::nn
