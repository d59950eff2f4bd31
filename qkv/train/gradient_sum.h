#pragma once
// The sum of the gradients of a step's batches, in an order that depends on their number only (TreeSum).
// Ranks run consecutive batches each; the sum of a parameter's gradients is that of its owner.

#include <cstdint>
#include <string>
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

class GradientSum {
 public:
  // A step has `batches`, at least one a rank.
  GradientSum(std::vector<nn::NamedParameter> parameters, int64_t batches, Communicator& ranks);

  // Takes the gradients of the parameters, which are those of this batch; in the order of the batches.
  void take(int64_t batch);
  // For each own node of the tree and each parameter, whether there is a gradient: '0' or '1'.
  std::string present() const;
  // Given present() of all ranks, in their order, gives each own parameter the sum of its gradients, and
  // the others none. Called by all ranks.
  void give(const std::vector<std::string>& present);
  // Whether a gradient that another rank owns is not finite in an own node; after give().
  bool has_non_finite(size_t parameter) const;
  // Drops all.
  void clear() { own_.nodes().clear(); }

  const std::vector<int>& owners() const { return owners_; }

 private:
  using Gradients = std::vector<Tensor>;  // by parameter; undefined: none
  static Tensor add(Tensor left, const Tensor& right);

  std::vector<nn::NamedParameter> parameters_;
  int64_t batches_;
  Communicator& ranks_;
  std::vector<int> owners_;
  TreeSum<Gradients> own_;
  std::vector<std::vector<TreeNode>> nodes_of_rank_;
};

}  // namespace qkv::train
