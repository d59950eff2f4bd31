#pragma once
// The sum of the gradients of a step's batches, in an order that depends on their number only (TreeSum).
// Ranks run consecutive batches each; the sum of a parameter's gradients is that of its owner.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "qkv/base/communicator.h"
#include "qkv/base/tree_sum.h"
#include "qkv/nn/named_parameters.h"

namespace qkv::train {

// The batches of a step that a rank runs: `begin` to `end`.
struct BatchRange {
  int64_t begin = 0, end = 0;
};
BatchRange batches_of_rank(int64_t batches, int rank, int ranks);

// The rank that owns each parameter: the largest first, each to the rank with the fewest elements so far.
std::vector<int> owners_of(const std::vector<nn::NamedParameter>& parameters, int ranks);

// To receive a contiguous tensor on the host, of any dtype.
inline std::span<std::byte> writable_bytes(Tensor& tensor) {
  return {const_cast<std::byte*>(tensor.as_bytes().data()), tensor.bytes()};
}

// The gradients of one step after the other: begin(), take() for each batch and parameter, finish(), give().
// Each parameter has a tree of its own. The gradients that a rank sends to an owner are in buckets, each sent
// as soon as the backward pass of the rank's last batch has completed it, and those before. Buckets depend on
// the parameters only, so that all ranks have the same.
class GradientSum {
 public:
  // A step has `batches`, at least one a rank. A bucket has up to `bucket_bytes`, or one larger parameter.
  // `dtype`: of the gradients of batches and of all sums, f32 or bf16, to which they are rounded. Sums are
  // added in f32. `device`: of the parameters; messages are on the host.
  GradientSum(std::vector<nn::NamedParameter> parameters, int64_t batches, int64_t bucket_bytes, DType dtype,
              Device device, Communicator& ranks);

  // Waits for what the others send, from now on. Until give(), the ranks may exchange other messages after
  // finish() only.
  void begin();
  // Takes the gradient of a parameter, which is that of this batch, or none; once for each batch of this
  // rank, in their order.
  void take(size_t parameter, int64_t batch);
  // Sends the buckets that are left, complete or not: the batches of this rank have ended or failed.
  void finish();
  // Gives each own parameter the sum of its gradients.
  void give();
  // Whether a gradient that another rank owns is not finite in an own node; after give().
  bool has_non_finite(size_t parameter) const;
  // From the first message that this rank has sent until the last one of the others had arrived; after
  // give().
  struct Period {
    std::chrono::steady_clock::time_point first, last;
  };
  Period period() const { return period_; }
  // Drops all, after the messages under way.
  void clear();

  const std::vector<int>& owners() const { return owners_; }

 private:
  // Gradients that have one owner. In a message of them, each node of the sender has those of all parameters;
  // flags follow, one a node and parameter: 1, or 0 for none.
  struct Bucket {
    int owner = 0;
    std::vector<size_t> parameters;
    std::vector<int64_t> begins;  // of each in a node, in elements
    int64_t elements = 0;
    size_t missing = 0;  // parameters whose gradients are not complete, in this step
  };
  struct Message {
    Tensor values;
    std::vector<std::byte> present;
  };

  void make_buckets(int64_t bucket_bytes);
  void send_next(int owner);
  Tensor add(Tensor left, const Tensor& right) const;
  Tensor rounded(Tensor values) const;
  // Those of the bucket's k-th parameter in a node of the sender of a message with these values.
  Tensor values_of(const Bucket& bucket, const Tensor& values, size_t node, size_t k) const;
  // Likewise in f32; undefined: none.
  Tensor gradient_of(const Bucket& bucket, const Message& message, size_t node, size_t k) const;
  int own() const { return ranks_.rank(); }

  std::vector<nn::NamedParameter> parameters_;
  int64_t batches_;
  DType dtype_;
  Device device_;
  Communicator& ranks_;
  std::vector<int> owners_;
  std::vector<std::vector<TreeNode>> nodes_of_rank_;
  int64_t last_batch_;                 // of this rank
  std::vector<TreeSum<Tensor>> sums_;  // of own batches, by parameter; an undefined tensor: no gradient
  std::vector<std::vector<Bucket>> buckets_;  // by owner, in the order in which they are sent
  std::vector<size_t> bucket_of_;             // of each parameter, among those of its owner
  // Of this step.
  std::vector<std::vector<Message>> incoming_;  // by own bucket: of each rank, of this one an empty one
  std::vector<std::vector<Message>> outgoing_;  // by owner, of the buckets that were sent
  // The first by own bucket. They end before the messages.
  std::vector<std::unique_ptr<Communicator::Transfer>> receives_, sends_;
  Period period_;
};

}  // namespace qkv::train
