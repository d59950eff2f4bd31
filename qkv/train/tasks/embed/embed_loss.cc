#include "qkv/train/tasks/embed/embed_loss.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/losses.h"
#include "qkv/ops/general/matmul.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/scale.h"
#include "qkv/ops/general/slice.h"
#include "qkv/ops/norm.h"

namespace qkv::train {
namespace {

// Added to the logit of an excluded class: its probability is exactly 0.
constexpr float kExcluded = -1e30f;

void require_pairs(const char* loss, const Variable& first, const Variable& second, size_t others) {
  if (first.shape() == second.shape() && first.shape().rank() == 2 &&
      static_cast<size_t>(first.shape()[0]) == others) {
    return;
  }
  throw ShapeError(concat(loss, ": expected vectors of ", others, " pairs, found ", first.shape(), " and ",
                          second.shape()));
}

Tensor on_device_of(const Variable& x, const Tensor& host) { return from_host(host, x.value().device()); }

// kExcluded for the classes that are no negatives of a pair, [n, n]; undefined if there are none.
Tensor exclusions(const ContrastiveOptions& options, int64_t n) {
  Tensor mask;
  for (const std::span<const uint64_t> keys : {options.first_keys, options.second_keys}) {
    for (size_t i = 0; i < keys.size(); ++i) {
      for (size_t j = 0; j < keys.size(); ++j) {
        if (i == j || keys[i] != keys[j]) continue;
        if (!mask.defined()) mask = Tensor::zeros({n, n});
        mask.data()[static_cast<int64_t>(i) * n + static_cast<int64_t>(j)] = kExcluded;
      }
    }
  }
  return mask;
}

Variable diagonal_cross_entropy(const Variable& logits) {
  const int64_t n = logits.shape()[0];
  std::vector<int32_t> labels(static_cast<size_t>(n));
  std::iota(labels.begin(), labels.end(), 0);
  return cross_entropy(logits, Tensor::from(labels, {n}), {.reduction = Reduction::sum});
}

}  // namespace

Variable unit_rows(const Variable& x) {
  if (x.shape().rank() != 2) throw ShapeError(concat("unit_rows: expected [n, features], found ", x.shape()));
  constexpr float kEpsilon = 1e-12f;
  // rms_norm() divides by the root of the mean square.
  const int64_t features = x.shape()[1];
  const float weight = 1 / std::sqrt(static_cast<float>(features));
  return rms_norm(x, on_device_of(x, Tensor::full({features}, weight)), kEpsilon);
}

Variable pair_cosines(const Variable& first, const Variable& second) {
  return sum(unit_rows(first) * unit_rows(second), 1);
}

Variable contrastive_loss(const Variable& first, const Variable& second, const ContrastiveOptions& options) {
  const int64_t n = first.shape().rank() == 2 ? first.shape()[0] : 0;
  require_pairs("contrastive_loss", first, second, static_cast<size_t>(n));
  for (const std::span<const uint64_t> keys : {options.first_keys, options.second_keys}) {
    if (!keys.empty() && std::ssize(keys) != n)
      throw ShapeError(concat("contrastive_loss: expected keys of ", n, " texts, found ", keys.size()));
  }
  Variable logits = scaled(matmul(unit_rows(first), transpose(unit_rows(second))), 1 / options.temperature);
  if (const Tensor mask = exclusions(options, n); mask.defined())
    logits = logits + Variable(on_device_of(first, mask));
  Variable loss = diagonal_cross_entropy(logits);
  if (!options.symmetric) return loss;
  return scaled(loss + diagonal_cross_entropy(transpose(logits)), 0.5f);
}

Variable cosent_loss(const Variable& first, const Variable& second, std::span<const float> scores,
                     float temperature) {
  require_pairs("cosent_loss", first, second, scores.size());
  const auto n = static_cast<int64_t>(scores.size());
  // The logit 0 of the label, whose cross-entropy is the loss, and one logit for each (i, j).
  Tensor mask = Tensor::full({n, n}, kExcluded);
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (scores[i] > scores[j]) mask.data()[static_cast<int64_t>(i) * n + static_cast<int64_t>(j)] = 0;
    }
  }
  const Variable cosines = scaled(pair_cosines(first, second), 1 / temperature);
  const Variable differences =
      reshape(cosines, {1, n}) - reshape(cosines, {n, 1}) + Variable(on_device_of(first, mask));
  const Variable zero = on_device_of(first, Tensor::zeros({1, 1}));
  return cross_entropy(concatenate({zero, reshape(differences, {1, n * n})}, 1),
                       Tensor::from(std::vector<int32_t>{0}, {1}), {.reduction = Reduction::sum});
}

Variable cosine_mse_loss(const Variable& first, const Variable& second, std::span<const float> targets) {
  require_pairs("cosine_mse_loss", first, second, targets.size());
  const Tensor wanted = Tensor::from(std::vector<float>(targets.begin(), targets.end()),
                                     {static_cast<int64_t>(targets.size())});
  return mse(pair_cosines(first, second), Variable(on_device_of(first, wanted)), Reduction::sum);
}

}  // namespace qkv::train
