#include "qkv/ops/functions.h"

#include <cmath>

#include "qkv/kernels/cpu/embedding.h"
#include "qkv/kernels/cpu/gated.h"
#include "qkv/kernels/cpu/pointwise.h"
#include "qkv/kernels/cpu/rotary.h"
#include "qkv/kernels/norm.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/weight_rows.h"

namespace qkv {
namespace {

using kernels::NormKind;

void require_matrix(const char* operation, const Variable& x) {
  if (x.value().rank() != 2 || !x.value().contiguous()) {
    throw ShapeError(concat(operation, ": expected a contiguous [tokens, features], found ", x.shape()));
  }
}

void require_same(const char* operation, const Variable& x, const Variable& y) {
  require_matrix(operation, x);
  require_matrix(operation, y);
  if (x.shape() != y.shape()) {
    throw ShapeError(concat(operation, ": shapes differ: ", x.shape(), " and ", y.shape()));
  }
}

void require_features(const char* operation, const Variable& x, const char* what, const Variable& features) {
  require_matrix(operation, x);
  const Shape found = features.defined() ? features.shape() : Shape{};
  if (found != Shape{x.value().cols()}) {
    throw ShapeError(
        concat(operation, ": x ", x.shape(), " needs a ", what, " [", x.value().cols(), "], found ", found));
  }
}

}  // namespace

Variable activate(const Variable& x, Activation activation, const Dropout& dropout) {
  const ProfileScope profile("activate");
  require_matrix("activate", x);
  const int64_t rows = x.value().rows(), cols = x.value().cols();
  Tensor y = Tensor::empty(x.shape());
  kernels::cpu::activate(activation, x.value().data(), y.data(), rows, cols, dropout);
  if (!Tape::records({x})) return y;
  return Tape::record("activate", y, [=](const Tensor& dy) {
    const GradientSlot slot = x.gradient_slot();
    kernels::cpu::activate_backward(activation, x.value().data(), dy.data(), slot.tensor.data(), rows, cols,
                                    dropout, slot.accumulate);
  });
}

namespace {

// Rows may be columns of a wider matrix.
void require_rows(const char* operation, const Variable& x) {
  if (x.value().rank() != 2)
    throw ShapeError(concat(operation, ": expected [tokens, features], found ", x.shape()));
}

// A gradient's memory and stride, or null where it is not wanted.
kernels::GradientRows gradient_rows(const Variable& x) {
  if (!x.requires_grad()) return {};
  const GradientSlot slot = x.gradient_slot();
  return {slot.tensor.data(), slot.tensor.row_stride(), slot.accumulate};
}

}  // namespace

Variable gated(const Variable& gate, const Variable& x, Activation activation, const Dropout& dropout) {
  const ProfileScope profile("gated");
  require_rows("gated", gate);
  require_rows("gated", x);
  if (gate.shape() != x.shape()) {
    throw ShapeError(concat("gated: shapes differ: ", gate.shape(), " and ", x.shape()));
  }
  const kernels::Gated arguments{.activation = activation,
                                 .gate = gate.value().data(),
                                 .x = x.value().data(),
                                 .gate_stride = gate.value().row_stride(),
                                 .x_stride = x.value().row_stride(),
                                 .rows = x.value().rows(),
                                 .cols = x.value().cols(),
                                 .dropout = dropout};
  Tensor y = Tensor::empty(x.shape());
  kernels::cpu::gated(arguments, y.data());
  if (!Tape::records({gate, x})) return y;
  return Tape::record("gated", y, [=](const Tensor& dy) {
    kernels::cpu::gated_backward(arguments, dy.data(), gradient_rows(gate), gradient_rows(x));
  });
}

Variable rotary(const Variable& x, int64_t heads, const RotaryTable& table, const Tensor& positions) {
  const ProfileScope profile("rotary");
  require_rows("rotary", x);
  const int64_t rows = x.value().rows(), cols = x.value().cols();
  if (heads < 1 || cols != heads * 2 * table.cosines.cols() || positions.numel() != rows) {
    throw ShapeError(concat("rotary: x ", x.shape(), " with ", positions.numel(),
                            " positions is not [tokens, ", heads, " heads * ", 2 * table.cosines.cols(),
                            "]"));
  }
  for (const int32_t position : positions.values<int32_t>()) {
    if (position < 0 || position >= table.cosines.rows()) {
      throw DataError(
          concat("rotary: expected a position from 0 to ", table.cosines.rows() - 1, ", found ", position));
    }
  }
  const auto turn = [rows, heads, table, positions](const Tensor& from, const Tensor& to,
                                                    kernels::Turn direction, Accumulate accumulate) {
    kernels::cpu::rotary({.x = from.data(),
                          .x_stride = from.row_stride(),
                          .y = to.data(),
                          .y_stride = to.row_stride(),
                          .rows = rows,
                          .heads = heads,
                          .d = 2 * table.cosines.cols(),
                          .cosines = table.cosines.data(),
                          .sines = table.sines.data(),
                          .positions = positions.data<int32_t>(),
                          .direction = direction,
                          .accumulate = accumulate});
  };
  Tensor y = Tensor::empty(x.shape());
  turn(x.value(), y, kernels::Turn::forward, Accumulate::no);
  if (!Tape::records({x})) return y;
  // A rotation's transpose turns back.
  return Tape::record("rotary", y, [x, turn](const Tensor& dy) {
    const GradientSlot slot = x.gradient_slot();
    turn(dy, slot.tensor, kernels::Turn::back, slot.accumulate);
  });
}

Variable residual(const Variable& x, const Variable& residual, const Dropout& dropout) {
  const ProfileScope profile("residual");
  require_same("residual", x, residual);
  Tensor sum = empty_like(x.value());
  kernels::norm_forward({.x = x.value(), .residual = residual.value(), .dropout = dropout, .sum = sum});
  if (!Tape::records({x, residual})) return sum;
  return Tape::record("residual", sum, [=](const Tensor& dy) {
    if (x.requires_grad()) kernels::dropout_backward(dy, {}, x.gradient_slot());
    if (residual.requires_grad()) kernels::dropout_backward(dy, dropout, residual.gradient_slot());
  });
}

namespace {

// The norm of x, or of x + dropout(residual) where there is a residual. With rms there is no bias.
Variable norm(const char* operation, NormKind kind, const Variable& x, const Variable& residual,
              const Dropout& dropout, const Variable& weight, const Variable& bias, float epsilon,
              Afterwards residual_afterwards) {
  const ProfileScope profile(operation);
  require_features(operation, x, "weight", weight);
  if (kind == NormKind::layer) require_features(operation, x, "bias", bias);
  if (residual.defined()) require_same(operation, x, residual);
  const int64_t rows = x.value().rows();
  const Device device = x.value().device();
  const bool records = Tape::records({x, residual, weight, bias});
  Tensor y = empty_like(x.value());
  // Only the backward pass needs these.
  Tensor sum;
  if (residual.defined() && records) {
    const bool in_place = residual_afterwards == Afterwards::used_up && !(residual == x);
    sum = in_place ? residual.value() : empty_like(x.value());
  }
  const Tensor mean = Tensor::empty({rows}, DType::f32, device), rstd = empty_like(mean);
  kernels::norm_forward({.x = x.value(),
                         .residual = residual.defined() ? residual.value() : Tensor(),
                         .dropout = dropout,
                         .kind = kind,
                         .weight = weight.value(),
                         .bias = bias.defined() ? bias.value() : Tensor(),
                         .epsilon = epsilon,
                         .sum = sum,
                         .y = y,
                         .mean = mean,
                         .rstd = rstd});
  if (!records) return y;
  return Tape::record(operation, y, [=](const Tensor& dy) {
    const auto slot = [](const Variable& to) {
      return to.requires_grad() ? to.gradient_slot() : GradientSlot{};
    };
    // The gradient of the sum is x's, and with dropout the residual's.
    kernels::norm_backward({.kind = kind,
                            .dropout = dropout,
                            .z = residual.defined() ? sum : x.value(),
                            .weight = weight.value(),
                            .mean = mean,
                            .rstd = rstd,
                            .dy = dy,
                            .dz = slot(x),
                            .residual = slot(residual),
                            .d_weight = slot(weight),
                            .d_bias = slot(bias)});
  });
}

}  // namespace

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, float epsilon) {
  return norm("layer_norm", NormKind::layer, x, {}, {}, weight, bias, epsilon, Afterwards::kept);
}

Variable residual_layer_norm(const Variable& x, const Variable& residual, const Dropout& dropout,
                             const Variable& weight, const Variable& bias, float epsilon,
                             Afterwards residual_afterwards) {
  return norm("residual_layer_norm", NormKind::layer, x, residual, dropout, weight, bias, epsilon,
              residual_afterwards);
}

Variable rms_norm(const Variable& x, const Variable& weight, float epsilon) {
  return norm("rms_norm", NormKind::rms, x, {}, {}, weight, {}, epsilon, Afterwards::kept);
}

Variable residual_rms_norm(const Variable& x, const Variable& residual, const Dropout& dropout,
                           const Variable& weight, float epsilon, Afterwards residual_afterwards) {
  return norm("residual_rms_norm", NormKind::rms, x, residual, dropout, weight, {}, epsilon,
              residual_afterwards);
}

Variable embedding(const Variable& table, const Tensor& ids, const Variable& positions,
                   const EmbeddingOptions& options) {
  const ProfileScope profile("embedding");
  require_matrix("embedding", table);
  const int64_t vocabulary = table.value().rows(), cols = table.value().cols(), tokens = ids.numel();
  for (const int32_t id : ids.values<int32_t>()) {
    if (id < 0 || id >= vocabulary) {
      throw DataError(concat("embedding: token id ", id, " is outside the vocabulary of ", vocabulary));
    }
  }
  if (positions.defined()) {
    require_matrix("embedding", positions);
    if (positions.value().cols() != cols || !options.position.defined() ||
        options.position.numel() != tokens) {
      throw ShapeError(concat("embedding: ", tokens, " ids of a table ", table.shape(),
                              " do not fit positions ", positions.shape(), " and places ",
                              options.position.shape()));
    }
    for (const int32_t place : options.position.values<int32_t>()) {
      if (place < 0 || place >= positions.value().rows()) {
        throw DataError(
            concat("embedding: place ", place, " is outside the ", positions.value().rows(), " positions"));
      }
    }
  }
  const bool records = Tape::records({table, positions});
  if (records && table.value().dtype() != DType::f32) {
    throw UsageError(concat("embedding: only an f32 table can be trained, found ",
                            name_of(table.value().dtype()), " ", table.shape()));
  }
  Tensor y = Tensor::empty({tokens, cols});
  kernels::cpu::embedding_forward(
      {.table = weight_rows(table),
       .ids = ids.data<int32_t>(),
       .factor = options.factor,
       .positions = positions.defined() ? positions.value().data() : nullptr,
       .position = positions.defined() ? options.position.data<int32_t>() : nullptr,
       .tokens = tokens,
       .cols = cols,
       .dropout = options.dropout,
       .y = y.data()});
  if (!records) return y;
  return Tape::record("embedding", y, [=](const Tensor& dy) {
    const auto scatter = [&](const Variable& to, const Tensor& rows, float factor) {
      const GradientSlot slot = to.gradient_slot();
      if (slot.accumulate == Accumulate::no) slot.tensor.fill_zero();
      kernels::cpu::embedding_backward(dy.data(), rows.data<int32_t>(), factor, tokens, cols,
                                       slot.tensor.rows(), options.dropout, slot.tensor.data());
    };
    if (table.requires_grad()) scatter(table, ids, options.factor);
    if (positions.requires_grad()) scatter(positions, options.position, 1.0f);
  });
}

Variable scaled(const Variable& x, float factor) {
  const ProfileScope profile("scaled");
  const int64_t count = x.value().numel();
  if (!x.value().contiguous()) throw ShapeError(concat("scaled: expected no view, found one: ", x.shape()));
  Tensor y = Tensor::empty(x.shape());
  kernels::cpu::scale(x.value().data(), factor, y.data(), count, Accumulate::no);
  if (!Tape::records({x})) return y;
  return Tape::record("scaled", y, [=](const Tensor& dy) {
    const GradientSlot slot = x.gradient_slot();
    kernels::cpu::scale(dy.data(), factor, slot.tensor.data(), count, slot.accumulate);
  });
}

Variable reshape(const Variable& x, const Shape& shape) {
  const Tensor y = x.value().reshape(shape);
  if (!Tape::records({x})) return y;
  return Tape::record("reshape", y, [=](const Tensor& dy) { x.add_grad(dy.reshape(x.shape())); });
}

Variable weighted_sum(const Variable& x, const Tensor& coefficients) {
  if (x.shape() != coefficients.shape()) {
    throw ShapeError(concat("weighted_sum: shapes differ: ", x.shape(), " and ", coefficients.shape()));
  }
  const auto values = x.value().values(), factors = coefficients.values();
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += double{values[i]} * factors[i];
  Tensor y = Tensor::full({1}, static_cast<float>(sum));
  if (!Tape::records({x})) return y;
  return Tape::record("weighted_sum", y, [=](const Tensor& dy) {
    const GradientSlot slot = x.gradient_slot();
    kernels::cpu::scale(coefficients.data(), dy.item(), slot.tensor.data(), coefficients.numel(),
                        slot.accumulate);
  });
}

}  // namespace qkv
