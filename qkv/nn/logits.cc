#include "qkv/nn/logits.h"

#include <algorithm>
#include <cmath>

#include "qkv/kernels/loss.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/general/scale.h"
#include "qkv/ops/linear_activate.h"

namespace qkv::nn {
namespace {

LogitsOptions validated(const LogitsOptions& options) {
  options.validate();
  return options;
}

// The columns of the projection's weight.
int64_t width_of(const LogitsOptions& options) {
  return options.layer && options.layer->width > 0 ? options.layer->width : options.d_model;
}

Parameter bias_of(bool wanted, int64_t outputs) {
  return wanted ? Parameter(Shape{outputs}, {Initializer::Kind::zeros}) : Parameter();
}

Tensor selected_rows(const Tensor& from, std::span<const int32_t> ids) {
  const int64_t count = std::ssize(ids);
  Tensor rows =
      Tensor::empty(from.rank() == 1 ? Shape{count} : Shape{count, from.dim(1)}, from.dtype(), from.device());
  for (int64_t i = 0; i < count; ++i)
    rows.slice_rows(i, 1).copy_from(from.slice_rows(ids[static_cast<size_t>(i)], 1));
  return rows;
}

}  // namespace

void LogitsOptions::validate() const {
  if (d_model < 1 || vocabulary < 1)
    throw UsageError(
        concat("logits: d_model and vocabulary: expected at least 1, found ", d_model, " and ", vocabulary));
  if (!std::isfinite(scale) || scale == 0)
    throw UsageError(concat("logits: scale: expected a finite number other than 0, found ", scale));
  if (layer && layer->width < 0)
    throw UsageError(concat("logits: layer: width: expected at least 0, found ", layer->width));
  if (!(softcap >= 0) || std::isinf(softcap))
    throw UsageError(concat("logits: softcap: expected 0 (none) or a positive number, found ", softcap));
}

Logits::Layer::Layer(const LogitsOptions& options)
    : weight(Parameter::weight_matrix({width_of(options), options.d_model},
                                      {Initializer::Kind::xavier_uniform})),
      bias(bias_of(options.layer->bias, width_of(options))),
      weights({weight.weight()}, {bias.variable}),
      norm({.features = width_of(options),
            .epsilon = options.layer->epsilon,
            .bias = options.layer->norm_bias}) {}

Logits::Logits(const LogitsOptions& options, const Weight& tied)
    : options_(validated(options)),
      layer_(options.layer ? std::optional<Layer>(std::in_place, options) : std::nullopt),
      table_(tied.defined()
                 ? Parameter()
                 : Parameter::token_matrix({options.vocabulary, width_of(options)}, options.initializer)),
      bias_(bias_of(options.bias, options.vocabulary)),
      weights_({tied.defined() ? tied : table_.weight()}, {bias_.variable}) {}

Variable Logits::projected(const Variable& hidden, WeightLayout layout) const {
  Variable x = hidden;
  if (layer_) x = layer_->norm(linear_activate(x, layer_->weights, options_.layer->activation, {}, layout));
  return options_.scale == 1 ? x : scaled(x, options_.scale);
}

Variable Logits::operator()(const Variable& hidden) const {
  Variable logits = linear(projected(hidden), weights_);
  if (options_.softcap == 0) return logits;
  return scaled(activate(scaled(logits, 1 / options_.softcap), Activation::tanh), options_.softcap);
}

CrossEntropyResult Logits::cross_entropy(const Variable& hidden, const Tensor& labels,
                                         const CrossEntropyOptions& options) const {
  return linear_cross_entropy(projected(hidden, options.layout), weights_, labels, options, options_.softcap);
}

std::vector<float> Logits::log_probabilities(const Tensor& hidden, std::span<const int32_t> labels,
                                             const EachRow& each) const {
  constexpr int64_t kRows = 256;  // rows of logits held at a time
  const int64_t tokens = std::ssize(labels), vocabulary = weights_.outputs();
  std::vector<float> result;
  result.reserve(labels.size());
  for (int64_t begin = 0; begin < tokens; begin += kRows) {
    const int64_t rows = std::min(kRows, tokens - begin);
    Tensor logits = (*this)(hidden.slice_rows(begin, rows)).value();
    kernels::log_softmax(logits, {}, logits);
    const Tensor found = to_host(logits);
    for (int64_t r = 0; r < rows; ++r) {
      const int32_t label = labels[static_cast<size_t>(begin + r)];
      if (label < 0 || label >= vocabulary) {
        throw DataError(concat("score: target token ", begin + r, ": expected an id from 0 to ",
                               vocabulary - 1, ", found ", label));
      }
      const auto row =
          found.values().subspan(static_cast<size_t>(r * vocabulary), static_cast<size_t>(vocabulary));
      result.push_back(row[static_cast<size_t>(label)]);
      if (each) each(row);
    }
  }
  return result;
}

Logits Logits::select(std::span<const int32_t> ids) const {
  const int64_t vocabulary = weights_.outputs();
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocabulary)
      throw UsageError(concat("logits: select: expected ids below ", vocabulary, ", found ", id));
  }
  const Weight& weight = weights_.weights().front();
  const Variable scales =
      weight.scales().defined() ? Variable(selected_rows(weight.scales(), ids)) : Variable();
  std::shared_ptr<LowRank> update;
  if (const LowRank* whole = weight.low_rank())
    update = std::make_shared<LowRank>(LowRank{whole->a, selected_rows(whole->b.value(), ids), whole->scale});
  const Variable& all = weights_.biases().front();
  const Variable bias =
      all.defined() ? Variable(selected_rows(all.value().reshape({vocabulary}), ids)) : Variable();
  Logits some = *this;
  some.weights_ = LinearWeights({Weight(selected_rows(weight.values(), ids), scales, update)}, {bias});
  return some;
}

void Logits::visit(const ParameterVisitor& visitor) const {
  if (layer_) {
    visitor("dense.weight", layer_->weight);
    if (layer_->bias.defined()) visitor("dense.bias", layer_->bias);
    visit_part(visitor, "layer_norm", layer_->norm);
  }
  if (table_.defined()) visitor("weight", table_);
  if (bias_.defined()) visitor("bias", bias_);
}

}  // namespace qkv::nn
