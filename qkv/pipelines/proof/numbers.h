#pragma once
// A proof's test inputs and the model's outputs for them.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "qkv/pipelines/open_model.h"

namespace qkv::pipelines {

// Inputs of a model: source and target for encoder-decoders, only a source for other text models, none for
// image encoders, which read a fixed pattern.
struct ProofCase {
  std::string name;
  std::vector<int32_t> source, target;
};

// The tokens of a text, and ids from all over the vocabulary. At most 24 tokens each.
std::vector<ProofCase> proof_cases(const OpenedModel& model);

// Outputs by name, f32 [rows, width] on the host: "logits" of decoders; "hidden" of encoders, and the logits
// of their heads. Throws the model's error for ids out of range.
using ProofOutputs = std::vector<std::pair<std::string, Tensor>>;
ProofOutputs run_proof_case(const OpenedModel& model, const ProofCase& one);

// Perturbs a freshly opened model as rounding does: each f32 weight W, and the scales of int8 weights,
// becomes W (1 +- g), g = 2 sqrt(n) u, with n the longest sum of the model's products, u = 2^-24, and
// pseudo-random signs. See changes_by_rounding() in proof.cc.
void perturb_as_rounding(const OpenedModel& model);

}  // namespace qkv::pipelines
