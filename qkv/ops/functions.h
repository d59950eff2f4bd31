#pragma once
// Differentiable functions that are not attention and not a matrix product. All throw ShapeError, naming both
// shapes.

#include "qkv/kernels/activation.h"
#include "qkv/kernels/dropout.h"
#include "qkv/ops/tape.h"

namespace qkv {

using kernels::Activation;
using kernels::Dropout;

// dropout(activation(x)); x [tokens, features].
Variable activate(const Variable& x, Activation activation, const Dropout& dropout = {});

// dropout(activation(gate) * x), the inside of a gated feed-forward (Shazeer 2020); both [tokens, features],
// and may be columns of one matrix.
Variable gated(const Variable& gate, const Variable& x, Activation activation, const Dropout& dropout = {});

// The angles of rotary positions: cosines and sines f32 [places, d / 2] for heads of d features.
struct RotaryTable {
  Tensor cosines, sines;
};

// Rotary positions (Su et al. 2021): x [tokens, heads * d], maybe columns of a wider matrix, and positions
// i32 [tokens], rows of the table. In each head, features i and i + d / 2 are the coordinates of a point,
// which is turned by the position's angle i. The scores of queries and keys then depend on how far they are
// apart. Throws DataError for a position outside the table.
Variable rotary(const Variable& x, int64_t heads, const RotaryTable& table, const Tensor& positions);

// factor * x; x is contiguous.
Variable scaled(const Variable& x, float factor);

// x + dropout(residual).
Variable residual(const Variable& x, const Variable& residual, const Dropout& dropout = {});

// (x - mean) / sqrt(var + epsilon) * weight + bias, over the features (Ba et al. 2016); weight and bias
// [features].
Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, float epsilon);

// x / sqrt(mean(x^2) + epsilon) * weight, over the features (Zhang and Sennrich 2019); weight [features].
Variable rms_norm(const Variable& x, const Variable& weight, float epsilon);

// Whether the numbers of an argument are needed afterwards. Where they are not, the backward pass's copy of
// a result may take their memory.
enum class Afterwards : bool { kept, used_up };

// layer_norm(x + dropout(residual)), the end of a post-norm block, in one pass.
Variable residual_layer_norm(const Variable& x, const Variable& residual, const Dropout& dropout,
                             const Variable& weight, const Variable& bias, float epsilon,
                             Afterwards residual_afterwards = Afterwards::kept);

// rms_norm(x + dropout(residual)), likewise.
Variable residual_rms_norm(const Variable& x, const Variable& residual, const Dropout& dropout,
                           const Variable& weight, float epsilon,
                           Afterwards residual_afterwards = Afterwards::kept);

struct EmbeddingOptions {
  float factor = 1;      // sqrt(d_model) in the paper, section 3.4
  Tensor position = {};  // i32 [tokens]: each token's row of `positions`; used where `positions` is given
  Dropout dropout = {};
};

// dropout(factor * table[ids] + positions[position]): table [vocabulary, features], ids i32 [tokens],
// positions [places, features] (sinusoids, or learned) or undefined -> [tokens, features]. Throws DataError
// for an id outside the table, or a position outside `positions`, naming it.
Variable embedding(const Variable& table, const Tensor& ids, const Variable& positions,
                   const EmbeddingOptions& options);

// The same numbers in another shape; nothing is copied on the way forward.
Variable reshape(const Variable& x, const Shape& shape);

// sum(x * coefficients) -> [1]: a scalar out of anything, for checking gradients.
Variable weighted_sum(const Variable& x, const Tensor& coefficients);

}  // namespace qkv
