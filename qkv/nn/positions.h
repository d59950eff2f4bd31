#pragma once
// Where a token stands.

#include <compare>

#include "qkv/ops/rotary.h"
#include "qkv/tensor/ragged.h"

namespace qkv::nn {

enum class PositionKind {
  // Added to the embeddings:
  sinusoidal_interleaved,  // sin and cos in turn, as in the paper
  sinusoidal_halves,       // all sines, then all cosines, as in tensor2tensor, Marian and fairseq
  learned,
  // Known to self-attention alone:
  rotary,    // queries and keys are turned by angles that grow with the position (Su et al. 2021)
  relative,  // scores have a learned number added, by head and distance (Raffel et al. 2020, section 2.1)
  alibi,     // scores fall with the distance, by a slope for each head (Press et al. 2022)
  none,
};

// How the angles of rotary positions are stretched for longer texts than a model was first trained with.
enum class RotaryScalingKind {
  none,
  linear,  // all by `factor` (Chen et al. 2023)
  llama3,  // slow ones by `factor`, fast ones not at all, and smoothly between (Llama 3.1)
  yarn,    // likewise with a ramp, and queries and keys grow (Peng et al. 2023)
};

struct RotaryScaling {
  RotaryScalingKind kind = RotaryScalingKind::none;
  double factor = 1;
  int64_t first_positions = 0;  // those that the model was first trained with: llama3, yarn
  // Of llama3: an angle that turns less often than `low` within first_positions is slow, one that turns more
  // often than `high` is fast.
  double low = 1, high = 4;
  // Of yarn: likewise; and what the turned queries and keys are multiplied by.
  double slow = 1, fast = 32, magnitude = 1;

  // clang-tidy takes the 0 that <=> is compared with for a pointer.
  friend auto operator<=>(const RotaryScaling&,
                          const RotaryScaling&) = default;  // NOLINT(modernize-use-nullptr)
};

// One description for all who need to know: an embedding acts on the kinds that are added, self-attention on
// the rest, and each passes over the others.
struct PositionOptions {
  PositionKind kind = PositionKind::none;
  int64_t max_positions = 512;  // of learned ones; the others grow on demand
  int64_t first_row = 0;        // of learned ones: where position 0 stands in their table
  double rotary_base = 10000;   // angle i of position p is p / base^(2 i / d), d being a head's features
  RotaryScaling rotary_scaling = {};
  // Of relative ones. Half of the buckets (where keys lie on both sides of a query, half of those of its
  // side) are for one distance each; the others become wider up to max_distance, from which on all share the
  // last.
  int64_t buckets = 32, max_distance = 128;
};

// PE(pos, 2i) = sin(pos / 10000^(2i / d)), PE(pos, 2i + 1) = cos(same) (Vaswani et al. 2017, section 3.5) for
// places 0 to count - 1: [count, d_model]. `kind` is one of the sinusoidal ones.
Tensor sinusoidal_positions(PositionKind kind, int64_t count, int64_t d_model);

// The angles of at least `count` places, for heads of d features; d is even. The process keeps one table for
// each base, scaling and width.
RotaryTable rotary_table(const PositionOptions& options, int64_t d, int64_t count);

// By how much the score of each head falls with every position between query and key: f32 [heads], 2^(-8 h /
// heads) for head h = 1, 2, ... where their number is a power of two. Else the next lower power's slopes,
// and then every second one of twice that power's (Press et al. 2022).
Tensor alibi_slopes(int64_t heads);

// 0, 1, 2, ... in every sequence: i32 [tokens], on the host.
Tensor position_ids(const Offsets& offsets);
// The same, where the positions of sequence i begin at first[i], i32 [sequences].
Tensor position_ids(const Offsets& offsets, const Tensor& first);

}  // namespace qkv::nn
