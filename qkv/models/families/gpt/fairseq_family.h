#pragma once
// Language models that were trained by fairseq (Ott et al. 2019): pre-norm blocks with the same names of
// tensors.

#include <string>

#include "qkv/models/hub/family.h"

namespace qkv::models {

constexpr int64_t kFairseqFirstRow = 2;  // the row of position 0: a constant in transformers, not a field

struct FairseqNames {
  std::string prefix = "model.", decoder = "model.", final_norm = "layer_norm", head = "lm_head";
};
WeightMap fairseq_weight_map(const LanguageModelConfig& config, const FairseqNames& names);
// "scale_embedding": the factor of the embeddings is sqrt(d_model), or 1.
void scaled_embedding(const Fields& fields, Described<LanguageModelConfig>& model);
// Positions are a table, or sinusoids; position 0 has the row above.
Described<LanguageModelConfig> fairseq_base(nn::PositionKind positions);

}  // namespace qkv::models
