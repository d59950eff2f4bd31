#include "qkv/nn/positions.h"

#include <cmath>

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

Tensor position_ids(const Offsets& offsets, int64_t first) {
  Tensor ids = Tensor::empty({offsets.tokens()}, DType::i32);
  for (int64_t sequence = 0; sequence < offsets.sequences(); ++sequence) {
    for (int64_t i = 0; i < offsets.length(sequence); ++i) {
      ids.data<int32_t>()[offsets.begin(sequence) + i] = static_cast<int32_t>(first + i);
    }
  }
  return ids;
}

}  // namespace qkv::nn
