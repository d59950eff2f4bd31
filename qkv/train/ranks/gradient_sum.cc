#include "qkv/train/ranks/gradient_sum.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/kernels/weights.h"
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

GradientSum::GradientSum(std::vector<nn::NamedParameter> parameters, int64_t batches, int64_t bucket_bytes,
                         DType dtype, Device device, Communicator& ranks)
    : parameters_(std::move(parameters)),
      batches_(batches),
      dtype_(dtype),
      device_(device),
      ranks_(ranks),
      owners_(owners_of(parameters_, ranks.size())),
      last_batch_(batches_of_rank(batches, ranks.rank(), ranks.size()).end - 1),
      sums_(parameters_.size(), TreeSum<Tensor>(batches)) {
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const BatchRange range = batches_of_rank(batches, rank, ranks.size());
    nodes_of_rank_.push_back(tree_nodes(batches, range.begin, range.end));
  }
  make_buckets(bucket_bytes);
}

// In reverse order, in which the backward pass completes most of them.
void GradientSum::make_buckets(int64_t bucket_bytes) {
  buckets_.resize(static_cast<size_t>(ranks_.size()));
  bucket_of_.resize(parameters_.size());
  outgoing_.resize(buckets_.size());
  for (size_t i = parameters_.size(); i-- > 0;) {
    const nn::Parameter& parameter = parameters_[i].parameter;
    if (!parameter.variable.requires_grad()) continue;  // frozen
    std::vector<Bucket>& buckets = buckets_[static_cast<size_t>(owners_[i])];
    const int64_t elements = parameter.shape.numel();
    if (buckets.empty() ||
        bytes_of(dtype_, buckets.back().elements + elements) > static_cast<size_t>(bucket_bytes))
      buckets.emplace_back();
    Bucket& bucket = buckets.back();
    bucket.parameters.push_back(i);
    bucket.begins.push_back(bucket.elements);
    bucket.elements += elements;
    bucket_of_[i] = buckets.size() - 1;
  }
}

Tensor GradientSum::rounded(Tensor values) const {
  if (dtype_ == DType::f32 || !values.defined()) return values;
  Tensor half = Tensor::empty(values.shape(), dtype_, values.device());
  kernels::round_to_bf16(values, half);
  kernels::widen_rows({half}, values);
  return values;
}

Tensor GradientSum::add(Tensor left, const Tensor& right) const {
  if (!left.defined()) return right;
  if (!right.defined()) return left;
  kernels::copy(right, left, Accumulate::yes);
  return rounded(std::move(left));
}

void GradientSum::begin() {
  const MemoryScope memory(MemoryUse::gradients);
  const auto own = static_cast<size_t>(ranks_.rank());
  for (std::vector<Bucket>& buckets : buckets_) {
    for (Bucket& bucket : buckets) bucket.missing = bucket.parameters.size();
  }
  incoming_.resize(buckets_[own].size());
  for (size_t b = 0; b < incoming_.size(); ++b) {
    const Bucket& bucket = buckets_[own][b];
    incoming_[b].resize(buckets_.size());
    std::vector<Communicator::Incoming> expected;
    for (size_t rank = 0; rank < buckets_.size(); ++rank) {
      if (rank == own) continue;
      const auto nodes = nodes_of_rank_[rank].size();
      Message& message = incoming_[b][rank];
      message = {Tensor::empty({static_cast<int64_t>(nodes) * bucket.elements}, dtype_),
                 std::vector<std::byte>(nodes * bucket.parameters.size())};
      expected.push_back({static_cast<int>(rank), writable_bytes(message.values)});
      expected.push_back({static_cast<int>(rank), message.present});
    }
    receives_.push_back(ranks_.start({}, expected));
  }
  period_ = {};
}

void GradientSum::take(size_t parameter, int64_t batch) {
  const MemoryScope memory(MemoryUse::gradients);
  const Variable& variable = parameters_[parameter].parameter.variable;
  Tensor gradient = rounded(variable.grad());
  variable.clear_grad();
  sums_[parameter].push({batch, 0}, std::move(gradient),
                        [this](Tensor left, const Tensor& right) { return add(std::move(left), right); });
  const int owner = owners_[parameter];
  if (batch < last_batch_ || owner == ranks_.rank() || !variable.requires_grad()) return;
  std::vector<Bucket>& buckets = buckets_[static_cast<size_t>(owner)];
  --buckets[bucket_of_[parameter]].missing;
  const std::vector<Message>& sent = outgoing_[static_cast<size_t>(owner)];
  while (sent.size() < buckets.size() && buckets[sent.size()].missing == 0) send_next(owner);
}

Tensor GradientSum::values_of(const Bucket& bucket, const Tensor& values, size_t node, size_t k) const {
  const int64_t begin = static_cast<int64_t>(node) * bucket.elements + bucket.begins[k];
  const Shape& shape = parameters_[bucket.parameters[k]].parameter.shape;
  return values.slice_rows(begin, shape.numel()).reshape(shape);
}

Tensor GradientSum::gradient_of(const Bucket& bucket, const Message& message, size_t node, size_t k) const {
  if (message.present[node * bucket.parameters.size() + k] == std::byte{0}) return {};
  Tensor values = values_of(bucket, message.values, node, k);
  if (dtype_ == DType::f32) return values;
  Tensor wide = Tensor::empty(values.shape(), DType::f32, values.device());
  kernels::widen_rows({values}, wide);
  return wide;
}

void GradientSum::send_next(int owner) {
  const ProfileScope profile("exchange of gradients");
  std::vector<Message>& sent = outgoing_[static_cast<size_t>(owner)];
  const Bucket& bucket = buckets_[static_cast<size_t>(owner)][sent.size()];
  const auto nodes = nodes_of_rank_[static_cast<size_t>(ranks_.rank())].size();
  const Tensor all = Tensor::zeros({static_cast<int64_t>(nodes) * bucket.elements}, dtype_, device_);
  std::vector<std::byte> present(nodes * bucket.parameters.size());
  for (size_t k = 0; k < bucket.parameters.size(); ++k) {
    auto& own = sums_[bucket.parameters[k]].nodes();
    for (size_t n = 0; n < std::min(nodes, own.size()); ++n) {  // fewer if a batch has failed
      const Tensor gradient = std::exchange(own[n].sum, {});
      if (!gradient.defined()) continue;
      present[n * bucket.parameters.size() + k] = std::byte{1};
      Tensor values = values_of(bucket, all, n, k);
      if (dtype_ == DType::f32) {
        values.copy_from(gradient);
      } else {
        kernels::round_to_bf16(gradient, values);  // exact
      }
    }
  }
  sent.push_back({to_host(all), std::move(present)});
  const Message& message = sent.back();
  const std::array<Communicator::Outgoing, 2> parts{
      {{owner, message.values.as_bytes()}, {owner, message.present}}};
  if (sends_.empty()) period_.first = std::chrono::steady_clock::now();
  sends_.push_back(ranks_.start(parts, {}));
}

void GradientSum::finish() {
  const MemoryScope memory(MemoryUse::gradients);
  for (int owner = 0; owner < ranks_.size(); ++owner) {
    if (owner == ranks_.rank()) continue;
    const auto place = static_cast<size_t>(owner);
    while (outgoing_[place].size() < buckets_[place].size()) send_next(owner);
  }
  if (sends_.empty()) period_.first = std::chrono::steady_clock::now();
}

void GradientSum::give() {
  const MemoryScope memory(MemoryUse::gradients);
  const auto wait = [](Communicator::Transfer& transfer) {
    const ProfileScope profile("exchange of gradients");
    transfer.wait();
  };
  const auto own = static_cast<size_t>(ranks_.rank());
  period_.last = period_.first;
  for (size_t b = 0; b < incoming_.size(); ++b) {
    wait(*receives_[b]);
    period_.last = std::max(period_.last, receives_[b]->ended());
    const Bucket& bucket = buckets_[own][b];
    for (Message& message : incoming_[b]) {
      if (message.values.defined()) message.values = from_host(message.values, device_);
    }
    for (size_t k = 0; k < bucket.parameters.size(); ++k) {
      const size_t i = bucket.parameters[k];
      TreeSum<Tensor> sum(batches_);
      for (size_t rank = 0; rank < nodes_of_rank_.size(); ++rank) {
        for (size_t n = 0; n < nodes_of_rank_[rank].size(); ++n) {
          sum.push(nodes_of_rank_[rank][n],
                   rank == own ? std::exchange(sums_[i].nodes().at(n).sum, {})
                               : gradient_of(bucket, incoming_[b][rank], n, k),
                   [this](Tensor left, const Tensor& right) { return add(std::move(left), right); });
        }
      }
      if (const Tensor all = sum.take(); all.defined()) parameters_[i].parameter.variable.add_grad(all);
    }
  }
  for (const auto& transfer : sends_) wait(*transfer);
}

bool GradientSum::has_non_finite(size_t parameter) const {
  const auto owner = static_cast<size_t>(owners_[parameter]);
  if (owners_[parameter] == ranks_.rank()) return false;
  const Bucket& bucket = buckets_[owner][bucket_of_[parameter]];
  const Message& message = outgoing_[owner].at(bucket_of_[parameter]);
  for (size_t k = 0; k < bucket.parameters.size(); ++k) {
    if (bucket.parameters[k] != parameter) continue;
    for (size_t n = 0; n * bucket.parameters.size() < message.present.size(); ++n) {
      const Tensor gradient = gradient_of(bucket, message, n, k);
      if (gradient.defined() && !kernels::all_finite(gradient)) return true;
    }
  }
  return false;
}

void GradientSum::clear() {
  receives_.clear();
  sends_.clear();
  incoming_.clear();
  for (std::vector<Message>& sent : outgoing_) sent.clear();
  for (TreeSum<Tensor>& sum : sums_) sum.nodes().clear();
}

}  // namespace qkv::train
