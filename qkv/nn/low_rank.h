#pragma once
// LoRA (Hu et al. 2022): trains low-rank updates of a module's weight matrices, which are frozen.
//
//   nn::LowRankAdapter adapter(model, {.rank = 8, .alpha = 16});
//   nn::set_requires_grad(model, false);
//   nn::initialise(adapter, seed);
//   optim::AdamW optimizer(adapter);

#include <string>
#include <vector>

#include "qkv/nn/named_parameters.h"

namespace qkv::nn {

struct LowRankOptions {
  int64_t rank = 8;  // 1 to 1024
  float alpha = 16;  // the update is alpha / rank * B A
  // The projections with an update, by the last part of the module's name ("q_proj", "fc1"). All others have
  // none.
  std::vector<std::string> targets = {"q_proj", "v_proj"};

  // Throws UsageError naming the option, what was expected and what was found.
  void validate() const;
};

// Adds the update of a weight, if it has one, to its values, and removes the update. Throws UsageError,
// naming `module`, unless the weight is f32.
void merge_low_rank(const std::string& module, const Parameter& weight);

// The update of one weight.
struct LowRankUpdate {
  std::string name;  // of the module: "encoder.layers.0.self_attn.q_proj"
  Parameter weight;  // of the module
  Parameter a, b;    // [rank, inputs], [outputs, rank]
  float scale = 1;
};

// The updates of a module's weights. The module computes with them until the adapter is destroyed or merged;
// they need values before. A module has one adapter at a time.
class LowRankAdapter {
 public:
  // Targets are weight matrices of layers. Throws UsageError for options out of range, for targets that no
  // layer has, listing those that it has, and for a module that has an adapter.
  LowRankAdapter(const std::vector<NamedParameter>& parameters, const LowRankOptions& options);
  template <class Module>
  LowRankAdapter(const Module& module, const LowRankOptions& options)
      : LowRankAdapter(parameters_of(module), options) {}
  ~LowRankAdapter();
  LowRankAdapter(LowRankAdapter&&) noexcept = default;
  LowRankAdapter(const LowRankAdapter&) = delete;
  LowRankAdapter& operator=(const LowRankAdapter&) = delete;

  const LowRankOptions& options() const { return options_; }
  const std::vector<LowRankUpdate>& updates() const { return updates_; }
  // "encoder.layers.0.self_attn.q_proj.lora_A.weight" and "...lora_B.weight", the names of PEFT. B starts
  // with zeros, so that training starts from the module as it is.
  void visit(const ParameterVisitor& visitor) const;
  // merge_low_rank() of all weights.
  void merge();

 private:
  void detach();

  LowRankOptions options_;
  std::vector<LowRankUpdate> updates_;
};

}  // namespace qkv::nn
