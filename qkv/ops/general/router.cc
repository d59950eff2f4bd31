#include "qkv/ops/general/router.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "qkv/base/parallel.h"
#include "qkv/base/scope.h"
#include "qkv/kernels/loss.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {
namespace {

constexpr int64_t kRowsOfPiece = 64;
constexpr float kLeast = -std::numeric_limits<float>::infinity();  // the place of NaN in the order

void add_to(std::vector<double>& sums, const std::vector<double>& more) {
  sums.resize(more.size());
  std::ranges::transform(sums, more, sums.begin(), std::plus());
}

}  // namespace

Tensor largest(const Tensor& x, int64_t count) {
  const ProfileScope profile("largest");
  require_matrix("largest", x);
  const int64_t n = x.cols();
  if (count < 1 || count > n) {
    throw ShapeError(
        concat("largest: expected 1 to ", n, " elements of each row of x ", x.shape(), ", found ", count));
  }
  const Tensor host = to_host(x);
  Tensor chosen = Tensor::empty({x.rows(), count}, DType::i32);
  parallel_for(x.rows(), kRowsOfPiece, [&](int64_t begin, int64_t end) {
    std::vector<int32_t> order(static_cast<size_t>(n));
    for (int64_t row = begin; row < end; ++row) {
      const float* const values = host.data() + row * n;
      std::iota(order.begin(), order.end(), 0);
      const auto key = [&](int32_t i) { return std::isnan(values[i]) ? kLeast : values[i]; };
      std::partial_sort(order.begin(), order.begin() + count, order.end(),
                        [&](int32_t a, int32_t b) { return key(a) > key(b) || (key(a) == key(b) && a < b); });
      std::copy_n(order.begin(), count, chosen.data<int32_t>() + row * count);
    }
  });
  return chosen;
}

RouterBalance::Layer RouterBalance::total() const {
  Layer sum;
  for (const auto& [name, layer] : layers_) {
    if (!sum.chosen.empty() && layer.chosen.size() != sum.chosen.size()) {
      throw UsageError(concat(name, ": balancing loss: expected ", sum.chosen.size(),
                              " experts, as in the layers before, found ", layer.chosen.size()));
    }
    sum.rows += layer.rows;
    add_to(sum.chosen, layer.chosen);
    add_to(sum.probability, layer.probability);
  }
  return sum;
}

double RouterBalance::loss() const {
  const Layer sum = total();
  if (sum.rows == 0) return 0;
  const double products =
      std::inner_product(sum.chosen.begin(), sum.chosen.end(), sum.probability.begin(), 0.0);
  return static_cast<double>(sum.chosen.size()) * products / (sum.rows * sum.rows);
}

Variable balanced(const Variable& logits, const Tensor& chosen,
                  const std::shared_ptr<RouterBalance>& balance) {
  if (!balance) return logits;
  require_matrix("balanced", logits);
  const int64_t rows = logits.value().rows(), experts = logits.value().cols();
  if (chosen.rank() != 2 || chosen.dtype() != DType::i32 || chosen.rows() != rows)
    throw ShapeError(concat("balanced: expected the experts of ", rows, " rows, found ", chosen.shape()));
  Tensor there = empty_like(logits.value());
  kernels::softmax(logits.value(), there);
  const Tensor probability = to_host(there);
  RouterBalance::Layer& layer = balance->layers_[NameScope::current()];
  layer = {static_cast<double>(rows), std::vector<double>(static_cast<size_t>(experts)),
           std::vector<double>(static_cast<size_t>(experts))};
  for (const int32_t expert : chosen.values<int32_t>()) ++layer.chosen.at(static_cast<size_t>(expert));
  for (int64_t i = 0; i < probability.numel(); ++i)
    layer.probability[static_cast<size_t>(i % experts)] += double{probability.data()[i]};
  if (!Tape::records({logits})) return logits;
  return Tape::record("balanced", logits.value(), {{logits, false}}, [=](const Tensor& dy) {
    logits.add_grad(dy);
    const RouterBalance::Layer sum = balance->total();
    // d loss / d p_e = E f_e / rows, the same for each row; d p_e / d z_j = p_e ((e == j) - p_j).
    const double slope = balance->factor_ * static_cast<double>(experts) / (sum.rows * sum.rows);
    Tensor gradient = Tensor::empty(probability.shape());
    for (int64_t row = 0; row < rows; ++row) {
      const float* const p = probability.data() + row * experts;
      const double mean = std::inner_product(p, p + experts, sum.chosen.begin(), 0.0);
      std::transform(
          p, p + experts, sum.chosen.begin(), gradient.data() + row * experts,
          [&](float own, double times) { return static_cast<float>(slope * double{own} * (times - mean)); });
    }
    logits.add_grad(from_host(gradient, logits.value().device()));
  });
}

}  // namespace qkv
