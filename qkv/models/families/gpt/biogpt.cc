// BioGPT (Luo et al. 2022): OPT's blocks with scaled embeddings.

#include "qkv/models/families/gpt/fairseq_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("max_position_embeddings", config.max_positions, 1024);
  fields("hidden_size", layer.d_model);
  fields("num_hidden_layers", layers);
  fields("num_attention_heads", layer.heads);
  fields("intermediate_size", layer.d_ff);
  fields("hidden_act", layer.activation, "gelu");
  fields("hidden_dropout_prob", layer.dropout, 0.1);
  fields("attention_probs_dropout_prob", layer.attention_dropout, 0.1);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  scaled_embedding(fields, model);
  // transformers does not read the epsilon: it is always 1e-5. The others are of training.
  fields.irrelevant("layer_norm_eps layerdrop activation_dropout");
  config.embedding.positions.max_positions = config.max_positions + kFairseqFirstRow;
}

WeightMap weight_map(const LanguageModelConfig& config) {
  return fairseq_weight_map(config, {.prefix = "biogpt.", .decoder = "biogpt.", .head = "output_projection"});
}

}  // namespace

LanguageFamily biogpt_family() {
  return {.model_type = "biogpt",
          .classes = {{"BioGptForCausalLM"}, {"BioGptModel"}},
          .base = fairseq_base(nn::PositionKind::learned),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
