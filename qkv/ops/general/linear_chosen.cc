#include "qkv/ops/general/linear_chosen.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "qkv/kernels/matmul.h"
#include "qkv/ops/linear_inputs.h"
#include "qkv/ops/linear_product.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {
namespace {

bool alike(const LinearWeights& a, const LinearWeights& b) {
  return std::ranges::equal(a.weights(), b.weights(), [](const Weight& x, const Weight& y) {
    return x.dtype() == y.dtype() && x.shape() == y.shape() &&
           x.values().row_stride() == y.values().row_stride() && y.low_rank() == nullptr;
  });
}

}  // namespace

struct LinearChoices::State {
  std::vector<LinearWeights> maps;
  std::mutex mutex;
  kernels::ChosenViews views;                                              // empty: none yet
  std::vector<std::shared_ptr<const LinearProduct::RightHandSide>> sides;  // of the views
  std::vector<uint64_t> versions;

  void forget() {
    const std::lock_guard lock(mutex);
    views = {};
    sides.clear();
  }

  // Of all weights and biases, in order.
  std::vector<uint64_t> current_versions() const {
    std::vector<uint64_t> all;
    for (const LinearWeights& map : maps) {
      for (const Weight& weight : map.weights()) all.push_back(weight.version());
      for (const Variable& bias : map.biases()) all.push_back(bias.defined() ? bias.version() : 0);
    }
    return all;
  }

  kernels::ChosenViews current_views() {
    const std::lock_guard lock(mutex);
    std::vector<uint64_t> now = current_versions();
    if (!views.empty() && now == versions) return views;
    std::vector<kernels::WeightView> all;
    std::vector<Tensor> biases;
    sides.clear();
    for (const LinearWeights& map : maps) {
      const auto& side = sides.emplace_back(LinearProduct::in_place(map));
      all.push_back(side->in_place);
      biases.push_back(side->bias);
    }
    views = kernels::ChosenViews(all, biases);
    versions = std::move(now);
    return views;
  }
};

LinearChoices::LinearChoices(std::vector<LinearWeights> maps) : state_(std::make_shared<State>()) {
  if (maps.empty()) throw UsageError("linear: expected at least one map to choose from, found none");
  state_->maps = std::move(maps);
}

bool LinearChoices::suit(const Tensor& x) const {
  if (Tape::records()) {  // the weights are about to change
    state_->forget();
    return false;
  }
  const LinearWeights& first = state_->maps.front();
  return x.rows() <= kernels::chosen_rows(x.device()) && !LinearInputs::observed() &&
         std::ranges::all_of(state_->maps, [&](const LinearWeights& map) { return alike(first, map); });
}

Tensor linear_chosen(const Tensor& x, const LinearChoices& choices, const Tensor& chosen) {
  const ProfileScope profile("linear");
  LinearChoices::State& state = *choices.state_;
  const LinearWeights& first = state.maps.front();
  if (x.rank() != 2 || x.dim(1) != first.inputs() || !is_activation(x))
    throw ShapeError(concat("linear: x ", name_of(x.dtype()), " ", x.shape(), " does not fit weights [",
                            first.outputs(), ", ", first.inputs(), "]"));
  if (chosen.rank() != 1 || chosen.dtype() != DType::i32 || x.rows() == 0 || chosen.numel() % x.rows() != 0)
    throw ShapeError(concat("linear: expected as many choices for each of ", x.rows(), " rows, found ",
                            name_of(chosen.dtype()), " ", chosen.shape()));
  Tensor y = Tensor::empty({chosen.numel(), first.outputs()}, x.dtype(), x.device());
  kernels::matmul_chosen(x, state.current_views(), chosen, y);
  return y;
}

}  // namespace qkv
