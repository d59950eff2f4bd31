#pragma once
// Updated weights travel from their owners to the other ranks while these begin the next forward pass, which
// waits for each weight when it first reads it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "qkv/base/communicator.h"
#include "qkv/nn/named_parameters.h"

namespace qkv::train {

// updated(), begin() and complete(), in this order, on all ranks.
class WeightExchange {
 public:
  // `owners`: by parameter. The parameters are sent in their order, which is about that of the forward pass;
  // up to `group_bytes`, or one larger parameter, are waited for together.
  WeightExchange(std::vector<nn::NamedParameter> parameters, std::vector<int> owners, int64_t group_bytes,
                 Communicator& ranks);
  ~WeightExchange();
  WeightExchange(const WeightExchange&) = delete;
  WeightExchange& operator=(const WeightExchange&) = delete;

  // The owners have changed the parameters that `changed` marks. A read of one of another rank waits from now
  // on until it has arrived. One before begin() calls `read_early`, which begins and completes the exchange,
  // or throws.
  void updated(const std::vector<bool>& changed, const std::function<void()>& read_early);
  // Begins to send and to receive them; without updated() since the last time, nothing happens.
  void begin();
  // Returns when all have arrived, and the own ones may be changed again.
  void complete();

  // Seconds from begin() until all had arrived, and the part in which this rank did not wait; sums over the
  // exchanges completed since the last call.
  struct Times {
    double under_way = 0, hidden = 0;
  };
  Times take_times();
  // Seconds that this rank has waited since begin().
  double waited() const { return waited_; }

 private:
  struct Group {
    std::vector<size_t> parameters;
    std::vector<Tensor> values;                        // of the parameters
    std::vector<Tensor> received;                      // the same on the host
    std::unique_ptr<Communicator::Transfer> transfer;  // ends before them
    bool taken = false;                                // `values` have what was received
  };
  Variable& leaf(size_t i) { return parameters_[i].parameter.variable; }
  void wait(Communicator::Transfer& transfer);
  void take(Group& group);
  void forget();

  std::vector<nn::NamedParameter> parameters_;
  std::vector<int> owners_;
  int64_t group_bytes_;
  Communicator& ranks_;
  bool begun_ = true;
  std::vector<Group> groups_;  // to be received
  std::vector<Tensor> own_;    // to be sent, on the host
  std::unique_ptr<Communicator::Transfer> sends_;
  std::chrono::steady_clock::time_point since_;
  double waited_ = 0;
  Times times_;
};

}  // namespace qkv::train
