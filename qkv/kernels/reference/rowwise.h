#pragma once
// The row-wise kernels once more, in double precision and one element after the other: what tests hold the
// fast ones against. Arguments as in qkv/kernels/{pointwise,gated,rotary,norm,loss,embedding,optimizer}.h;
// dropped elements are those that Dropout::keeps says no to.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/kernels/dropout.h"
#include "qkv/kernels/embedding.h"
#include "qkv/kernels/gated.h"
#include "qkv/kernels/loss.h"
#include "qkv/kernels/norm.h"
#include "qkv/kernels/optimizer.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/kernels/rotary.h"

namespace qkv::kernels::reference {

using Doubles = std::vector<double>;

// 0 where the element is dropped, else what it is multiplied by.
double dropout_factor(const Dropout& dropout, int64_t row, int64_t column);

double activation(Activation activation, double x);
double activation_derivative(Activation activation, double x);

Doubles gated(const Gated& arguments);
struct GatedGradients {
  Doubles gate, x;  // [rows, cols]
};
GatedGradients gated_backward(const Gated& arguments, const float* dy);

// [rows, heads * d], whatever `accumulate` says.
Doubles rotary(const Rotary& arguments);

struct Norm {
  Doubles sum, y;      // [rows, cols]
  Doubles mean, rstd;  // [rows]
};
Norm norm_forward(const NormInput& input);

struct NormGradients {
  Doubles dz, branch;   // [rows, cols]
  Doubles gain, shift;  // [cols]
};
// Of the float z alone: mean and deviation are computed anew, with `epsilon`.
NormGradients norm_backward(const NormBackward& arguments, float epsilon);

struct Losses {
  Doubles loss, nll;  // [rows]
  Doubles gradient;   // [rows, cols]
};
Losses cross_entropy(const CrossEntropy& arguments);

// log softmax(x + bias) by row; bias may be null.
Doubles log_softmax(const float* x, const float* bias, int64_t rows, int64_t cols);

Doubles embedding_forward(const EmbeddingForward& arguments);

// One parameter's step of Adam, in place.
struct AdamState {
  Doubles value, first_moment, second_moment, average;
};
void adam(const AdamStep& step, std::span<const float> gradient, double average_decay, AdamState& state);

}  // namespace qkv::kernels::reference
