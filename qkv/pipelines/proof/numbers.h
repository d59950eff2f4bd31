#pragma once
// What a proof runs a model on, and the model's outputs.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "qkv/pipelines/open_model.h"

namespace qkv::pipelines {

// Inputs of a model: a source and a target for encoder-decoders, a source alone for other models of text,
// neither for encoders of images, which read a fixed pattern.
struct ProofCase {
  std::string name;
  std::vector<int32_t> source, target;
};

// A text of the tokenizer's, and ids from all over the vocabulary. At most 24 tokens each.
std::vector<ProofCase> proof_cases(const OpenedModel& model);

// The outputs by name, f32 [rows, width] on the host: "logits" of decoders; "hidden" of encoders, and the
// logits of their heads. Throws what the model throws for ids that it does not have.
using ProofOutputs = std::vector<std::pair<std::string, Tensor>>;
ProofOutputs run_proof_case(const OpenedModel& model, const ProofCase& one);

// Changes a freshly opened model as rounding does: each f32 weight W of the model, and the scales of int8
// ones, becomes W (1 +- g), g = 2 sqrt(n) u, with n the longest sum of the model's products, u = 2^-24, and
// pseudo-random signs. See bound_of() in proof.cc.
void perturb_as_rounding(const OpenedModel& model);

}  // namespace qkv::pipelines
