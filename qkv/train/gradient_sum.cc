#include "qkv/train/gradient_sum.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/ops/profile.h"

namespace qkv::train {

BatchRange batches_of_rank(int64_t batches, int rank, int ranks) {
  return {batches * rank / ranks, batches * (rank + 1) / ranks};
}

std::vector<int> owners_of(const std::vector<nn::NamedParameter>& parameters, int ranks) {
  std::vector<size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t i) { return parameters[i].parameter.shape.numel(); });
  std::vector<int64_t> elements(static_cast<size_t>(ranks));
  std::vector<int> owners(parameters.size());
  for (const size_t i : order) {
    const auto least = std::ranges::min_element(elements);
    *least += parameters[i].parameter.shape.numel();
    owners[i] = static_cast<int>(least - elements.begin());
  }
  return owners;
}

GradientSum::GradientSum(std::vector<nn::NamedParameter> parameters, int64_t batches, Communicator& ranks)
    : parameters_(std::move(parameters)),
      batches_(batches),
      ranks_(ranks),
      owners_(owners_of(parameters_, ranks.size())),
      own_(batches) {
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const BatchRange range = batches_of_rank(batches, rank, ranks.size());
    nodes_of_rank_.push_back(tree_nodes(batches, range.begin, range.end));
  }
}

Tensor GradientSum::add(Tensor left, const Tensor& right) {
  if (!left.defined()) return right;
  if (right.defined()) kernels::copy(right, left, Accumulate::yes);
  return left;
}

void GradientSum::take(int64_t batch) {
  const MemoryScope memory(MemoryUse::gradients);
  Gradients gradients;
  for (const auto& [name, parameter] : parameters_) {
    gradients.push_back(parameter.variable.grad());
    parameter.variable.clear_grad();
  }
  own_.push({batch, 0}, std::move(gradients), [](Gradients left, Gradients right) {
    for (size_t i = 0; i < left.size(); ++i) left[i] = add(std::move(left[i]), std::exchange(right[i], {}));
    return left;
  });
}

std::string GradientSum::present() const {
  std::string flags;
  for (const auto& node : own_.nodes()) {
    for (const Tensor& gradient : node.sum) flags += gradient.defined() ? '1' : '0';
  }
  return flags;
}

void GradientSum::give(const std::vector<std::string>& present) {
  const ProfileScope profile("exchange of gradients");
  const MemoryScope memory(MemoryUse::gradients);
  const int own = ranks_.rank(), count = ranks_.size();
  std::vector<Communicator::Outgoing> outgoing;
  std::vector<Communicator::Incoming> incoming;
  // By parameter, the nodes of all ranks in their order.
  std::vector<std::vector<std::pair<TreeNode, Tensor>>> nodes(parameters_.size());
  for (int rank = 0; rank < count; ++rank) {
    const std::vector<TreeNode>& theirs = nodes_of_rank_[static_cast<size_t>(rank)];
    const std::string& flags = present.at(static_cast<size_t>(rank));
    for (size_t n = 0; n < theirs.size(); ++n) {
      for (size_t i = 0; i < parameters_.size(); ++i) {
        const bool there = flags.at(n * parameters_.size() + i) == '1';
        if (rank == own && owners_[i] != own && there)
          outgoing.push_back({owners_[i], own_.nodes()[n].sum[i].as_bytes()});
        if (owners_[i] != own) continue;
        Tensor gradient;
        if (rank == own) {
          gradient = own_.nodes()[n].sum[i];
        } else if (there) {
          gradient = Tensor::empty(parameters_[i].parameter.shape);
          incoming.push_back({rank, std::as_writable_bytes(gradient.values())});
        }
        nodes[i].emplace_back(theirs[n], gradient);
      }
    }
  }
  ranks_.exchange(outgoing, incoming);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (owners_[i] != own) continue;
    TreeSum<Tensor> sum(batches_);
    for (auto& [at, gradient] : nodes[i])
      sum.push(at, std::exchange(gradient, {}),
               [](Tensor left, const Tensor& right) { return add(std::move(left), right); });
    for (auto& node : own_.nodes()) node.sum[i] = {};
    if (const Tensor all = sum.take(); all.defined()) parameters_[i].parameter.variable.add_grad(all);
  }
}

bool GradientSum::has_non_finite(size_t parameter) const {
  return std::ranges::any_of(own_.nodes(), [parameter](const auto& node) {
    return node.sum[parameter].defined() && !kernels::all_finite(node.sum[parameter]);
  });
}

}  // namespace qkv::train
