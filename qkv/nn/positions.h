#pragma once
// Position encodings.

#include <compare>
#include <vector>

#include "qkv/tensor/ragged.h"

namespace qkv {
struct RotaryTable;  // ops/rotary.h
}

namespace qkv::nn {

enum class PositionKind {
  // Added to the embeddings:
  sinusoidal_interleaved,  // sine and cosine alternate, as in the paper
  sinusoidal_halves,       // all sines, then all cosines, as in Marian
  sinusoidal_inclusive,    // likewise, with frequencies from 1 to 1 / 10000 (tensor2tensor, fairseq)
  learned,
  // Applied in self-attention:
  rotary,    // rotates queries and keys by angles proportional to the position (Su et al. 2021)
  relative,  // adds a learned bias to scores, by head and distance (Raffel et al. 2020, section 2.1)
  alibi,     // subtracts the distance times a per-head slope from scores (Press et al. 2022)
  // Adds products of queries, and of keys, with projected vectors of distances (He et al. 2021); encoders
  // only.
  disentangled,
  none,
};

// How rotary angles are scaled for texts longer than those of the original training.
enum class RotaryScalingKind {
  none,
  linear,  // all angles are divided by `factor` (Chen et al. 2023)
  llama3,  // low frequencies are divided by `factor`, high ones unchanged, interpolated between (Llama 3.1)
  yarn,    // likewise with a linear ramp, and queries and keys are scaled (Peng et al. 2023)
  // Each angle has a divisor of its own, and queries and keys are scaled (Ding et al. 2024).
  longrope,
};

struct RotaryScaling {
  RotaryScalingKind kind = RotaryScalingKind::none;
  double factor = 1;
  int64_t first_positions = 0;  // context length of the original training: llama3, yarn, longrope
  // llama3: a frequency with fewer than `low` rotations within first_positions is low, one with more than
  // `high` is high.
  double low = 1, high = 4;
  // yarn: likewise with `slow` and `fast`; `magnitude` multiplies rotated queries and keys, as for longrope.
  double slow = 1, fast = 32, magnitude = 1;
  // Of any kind, with all features rotated or latent attention: queries of position p are multiplied by
  // 1 + query_growth ln(1 + floor(p / first_positions)) (Llama 4); 0: off.
  double query_growth = 0;
  // longrope: the divisors of the angles, r / 2 each, in texts of up to first_positions tokens, and in longer
  // ones, which are not supported: all angles would change with the last position. Kept for saving.
  std::vector<double> short_factors = {}, long_factors = {};
  double long_magnitude = 0;  // likewise, of longer texts, if the folder has it
  bool truncate = true;       // yarn: the ramp begins and ends at whole indices of frequencies

  // clang-tidy mistakes the 0 that <=> is compared with for a pointer.
  friend auto operator<=>(const RotaryScaling&,
                          const RotaryScaling&) = default;  // NOLINT(modernize-use-nullptr)
};

// Shared by embedding and self-attention: the embedding applies the additive kinds, self-attention the
// others, and each ignores the rest.
struct PositionOptions {
  PositionKind kind = PositionKind::none;
  int64_t max_positions = 512;  // of learned positions; other tables grow on demand
  int64_t first_row = 0;        // of learned and sinusoidal_inclusive positions: the table row of position 0
  // Of learned positions that are not given: tokens with this id take the row before first_row and are not
  // counted (RoBERTa, fairseq); -1: every token counts.
  int64_t pad_id = -1;
  double rotary_base = 10000;  // angle i of position p is p / base^(2 i / d), d being the head width
  RotaryScaling rotary_scaling = {};
  int64_t rotary_features = 0;    // features of a head that are rotated, its first; even; 0: all
  int64_t rotary_angles = 0;      // the first angles; the others are 0 (Gemma 4); 0: all are different
  bool rotary_backwards = false;  // angles are negative (nanochat)
  bool alibi_scaled = false;      // ALiBi's biases are multiplied by the scale of the scores (Falcon)
  // Relative positions: half of the buckets (of each side, if keys lie on both sides of a query) hold one
  // distance each; the others widen up to max_distance, beyond which all distances share the last.
  int64_t buckets = 32, max_distance = 128;
  // Disentangled positions have `buckets` vectors for distances on each side: up to half of them one a
  // distance, the others widening up to max_distance; with a max_distance of 0 all hold one distance each.
  bool distance_norm = false;  // the vectors are normalised

  bool operator==(const PositionOptions&) const = default;
};

// PE(pos, 2i) = sin(pos / 10000^(2i / d)), PE(pos, 2i + 1) = cos(same) (Vaswani et al. 2017, section 3.5) for
// positions 0 to count - 1: [count, d_model]. `kind` is one of the sinusoidal ones.
Tensor sinusoidal_positions(PositionKind kind, int64_t count, int64_t d_model);

// The factor of queries at a position: 1 without RotaryScaling::query_growth.
double query_growth(const RotaryScaling& scaling, int64_t position);

// The angles of at least `count` positions, for heads of even width d, with the factors of queries. The
// process keeps one table per base, scaling and width. Throws UsageError for more than first_positions with
// longrope.
RotaryTable rotary_table(const PositionOptions& options, int64_t d, int64_t count);

// ALiBi's slope of each head, f32 [heads]: 2^(-8 h / heads) for h = 1, 2, ... if their number is a power of
// two. Otherwise the slopes of the next lower power of two, followed by every second slope of twice that
// power (Press et al. 2022).
Tensor alibi_slopes(int64_t heads);

// 0, 1, 2, ... in every sequence: i32 [tokens], on the host.
Tensor position_ids(const Offsets& offsets);
// Likewise, but positions of sequence i begin at first[i], i32 [sequences].
Tensor position_ids(const Offsets& offsets, const Tensor& first);

}  // namespace qkv::nn
