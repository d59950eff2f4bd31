#pragma once
// The field names of GPT-2 (Radford et al. 2019), which other families share.

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {

// Values of fields that a folder does not have.
struct Gpt2Defaults {
  const char* activation = "gelu_new";
  bool tied = true;
  double dropout = 0.1;
};

// The fields of the sizes, the activation, dropout and the vocabulary.
void gpt2_fields(const Fields& fields, Described<LanguageModelConfig>& model,
                 const Gpt2Defaults& defaults = {});

// GPT-2's names of all but the projections of queries, keys and values.
WeightMap gpt2_weight_map(const LanguageModelConfig& config, Layout layout = Layout::same);

// Learned positions, added to the embeddings, before pre-norm blocks.
Described<LanguageModelConfig> gpt2_base();

}  // namespace qkv::models
