#pragma once
// Activations and gated activations, element by element.

#include <cstdint>

#include "qkv/kernels/backend/gated.h"
#include "qkv/kernels/kinds.h"
#include "qkv/kernels/reference/doubles.h"

namespace qkv::kernels::reference {

double activation(Activation activation, double x);
double activation_derivative(Activation activation, double x);

Doubles gated(const Gated& arguments);  // [rows, cols]

struct GatedGradients {
  Doubles gate, x;  // [rows, cols]
};
GatedGradients gated_backward(const Gated& arguments, Elements dy);

// The kernels of pointwise.h and gated.h.
void activate(Activation activation, Elements x, MutableElements y, int64_t rows, int64_t cols,
              const Dropout& dropout);
void activate_backward(Activation activation, Elements x, Elements dy, MutableElements dx, int64_t rows,
                       int64_t cols, const Dropout& dropout, Accumulate accumulate);
void relu_backward(Elements y, Elements dy, float factor, MutableElements dx, int64_t count);
void gated(const Gated& arguments, MutableElements y);
void gated_backward(const Gated& arguments, Elements dy, const GradientRows& d_gate, const GradientRows& d_x);

}  // namespace qkv::kernels::reference
