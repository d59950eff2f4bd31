#include "qkv/train/ranks/weight_exchange.h"

#include <algorithm>
#include <utility>

#include "qkv/ops/profile.h"
#include "qkv/train/ranks/gradient_sum.h"

namespace qkv::train {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

WeightExchange::WeightExchange(std::vector<nn::NamedParameter> parameters, std::vector<int> owners,
                               int64_t group_bytes, Communicator& ranks)
    : parameters_(std::move(parameters)),
      owners_(std::move(owners)),
      group_bytes_(group_bytes),
      ranks_(ranks) {}

WeightExchange::~WeightExchange() { forget(); }

void WeightExchange::forget() {
  for (const Group& group : groups_) {
    for (const size_t i : group.parameters) leaf(i).set_arriving({});
  }
  groups_.clear();
  own_.clear();
}

void WeightExchange::updated(const std::vector<bool>& changed, const std::function<void()>& read_early) {
  begun_ = false;
  int64_t bytes = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!changed[i]) continue;
    if (owners_[i] == ranks_.rank()) {
      own_.push_back(to_host(leaf(i).value()));
      continue;
    }
    const Tensor value = leaf(i).mutable_value();
    const auto size = static_cast<int64_t>(value.bytes());
    if (groups_.empty() || bytes + size > group_bytes_) {
      groups_.emplace_back();
      bytes = 0;
    }
    bytes += size;
    groups_.back().parameters.push_back(i);
    groups_.back().values.push_back(value);
    leaf(i).set_arriving([this, read_early, group = groups_.size() - 1] {
      if (!begun_) return read_early();
      take(groups_[group]);
    });
  }
}

void WeightExchange::begin() {
  if (std::exchange(begun_, true)) return;
  since_ = Clock::now();
  waited_ = 0;
  for (Group& group : groups_) {
    std::vector<Communicator::Incoming> incoming;
    for (size_t k = 0; k < group.values.size(); ++k) {
      const Tensor& value = group.values[k];
      group.received.push_back(value.device() == Device::cpu ? value : Tensor::empty(value.shape()));
      incoming.push_back({owners_[group.parameters[k]], writable_bytes(group.received[k])});
    }
    group.transfer = ranks_.start({}, incoming);
  }
  std::vector<Communicator::Outgoing> outgoing;
  for (const Tensor& value : own_) {
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      if (rank != ranks_.rank()) outgoing.push_back({rank, value.as_bytes()});
    }
  }
  sends_ = ranks_.start(outgoing, {});
}

void WeightExchange::wait(Communicator::Transfer& transfer) {
  const ProfileScope profile("exchange of parameters");
  const Clock::time_point from = Clock::now();
  transfer.wait();
  waited_ += Seconds(Clock::now() - from).count();
}

void WeightExchange::take(Group& group) {
  wait(*group.transfer);
  if (std::exchange(group.taken, true)) return;
  for (size_t k = 0; k < group.values.size(); ++k) {
    if (group.values[k].device() != Device::cpu) group.values[k].copy_from(group.received[k]);
  }
}

void WeightExchange::complete() {
  if (!sends_) return;
  Clock::time_point last = since_;
  for (Group& group : groups_) {
    take(group);
    last = std::max(last, group.transfer->ended());
  }
  wait(*sends_);
  times_.under_way += Seconds(last - since_).count();
  times_.hidden += std::max(0.0, Seconds(last - since_).count() - waited_);
  sends_.reset();
  forget();
}

WeightExchange::Times WeightExchange::take_times() { return std::exchange(times_, {}); }

}  // namespace qkv::train
