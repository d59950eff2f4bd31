#pragma once
// Where a token stands.

#include "qkv/ops/functions.h"
#include "qkv/tensor/ragged.h"

namespace qkv::nn {

enum class PositionKind {
  // Added to the embeddings:
  sinusoidal_interleaved,  // sin and cos in turn, as in the paper
  sinusoidal_halves,       // all sines, then all cosines, as in tensor2tensor, Marian and fairseq
  learned,
  // Known to self-attention alone:
  rotary,  // queries and keys are turned by angles that grow with the position (Su et al. 2021)
  none,
};

// One description for all who need to know: an embedding acts on the kinds that are added, self-attention on
// the rest, and each passes over the others.
struct PositionOptions {
  PositionKind kind = PositionKind::none;
  int64_t max_positions = 512;  // of learned ones; the others grow on demand
  int64_t first_row = 0;        // of learned ones: where position 0 stands in their table
  double rotary_base = 10000;   // angle i of position p is p / base^(2 i / d), d being a head's features
};

// PE(pos, 2i) = sin(pos / 10000^(2i / d)), PE(pos, 2i + 1) = cos(same) (Vaswani et al. 2017, section 3.5) for
// places 0 to count - 1: [count, d_model]. `kind` is one of the sinusoidal ones.
Tensor sinusoidal_positions(PositionKind kind, int64_t count, int64_t d_model);

// The angles of at least `count` places, for heads of d features; d is even. The process keeps one table for
// each base and width.
RotaryTable rotary_table(double base, int64_t d, int64_t count);

// 0, 1, 2, ... in every sequence: i32 [tokens].
Tensor position_ids(const Offsets& offsets);

}  // namespace qkv::nn
