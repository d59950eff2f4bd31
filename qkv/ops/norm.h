#pragma once
// Norms of rows, and residual sums. All functions throw ShapeError naming both shapes.

#include "qkv/ops/dropout.h"
#include "qkv/ops/tape.h"

namespace qkv {

// x + dropout(residual); both [tokens, features].
Variable residual(const Variable& x, const Variable& residual, const Dropout& dropout = {});

// (x - mean) / sqrt(var + epsilon) * weight + bias, over the features (Ba et al. 2016); weight and bias
// [features].
Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, float epsilon);

// x / sqrt(mean(x^2) + epsilon) * weight, over the features (Zhang and Sennrich 2019); weight [features].
Variable rms_norm(const Variable& x, const Variable& weight, float epsilon);

// in_place: the caller no longer needs the argument's values, so that the sum kept for the backward pass may
// be stored in its memory.
enum class Reuse : bool { none, in_place };

// layer_norm(x + dropout(residual)), as in a post-norm block, in one pass.
Variable residual_layer_norm(const Variable& x, const Variable& residual, const Dropout& dropout,
                             const Variable& weight, const Variable& bias, float epsilon,
                             Reuse residual_reuse = Reuse::none);

// rms_norm(x + dropout(residual)), likewise.
Variable residual_rms_norm(const Variable& x, const Variable& residual, const Dropout& dropout,
                           const Variable& weight, float epsilon, Reuse residual_reuse = Reuse::none);

}  // namespace qkv
