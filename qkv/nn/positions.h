#pragma once
// Where a token stands.

#include "qkv/tensor/ragged.h"

namespace qkv::nn {

enum class PositionKind {
  sinusoidal_interleaved,  // sin and cos in turn, as in the paper
  sinusoidal_halves,       // all sines, then all cosines, as in tensor2tensor, Marian and fairseq
  learned,
  none,
};

// PE(pos, 2i) = sin(pos / 10000^(2i / d)), PE(pos, 2i + 1) = cos(same) (Vaswani et al. 2017, section 3.5) for
// places 0 to count - 1: [count, d_model]. `kind` is one of the sinusoidal ones.
Tensor sinusoidal_positions(PositionKind kind, int64_t count, int64_t d_model);

// 0, 1, 2, ... in every sequence, from `first` on: i32 [tokens].
Tensor position_ids(const Offsets& offsets, int64_t first = 0);

}  // namespace qkv::nn
