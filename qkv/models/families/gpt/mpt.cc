// MPT (MosaicML 2023): ALiBi, layer norms without biases, and a fused projection of queries, keys and values.

#include <bit>

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void attention_fields(const Fields& fields, nn::LayerOptions& layer) {
  fields.derive("attn_pdrop", int64_t{0});  // transformers accepts no fraction
  float scale = layer.attention.scale.value_or(0);
  fields.number_or_null("softmax_scale", scale, 0);
  layer.attention.scale = scale > 0 ? std::optional(scale) : std::nullopt;
  fields.expect("attn_type", "multihead_attention");
  fields.expect("prefix_lm qk_ln attn_uses_sequence_id", false);
  fields.expect("alibi", true);
  fields.expect("alibi_bias_max", 8);
  fields.number_or_null("clip_qkv", layer.attention.clip, 0);
  fields.irrelevant("attn_impl architectures model_type id2label label2id");
  if (fields.reads()) fields.reader()->ignore_common();
}

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("max_seq_len", config.max_positions, 2048);
  fields({"d_model", "hidden_size"}, layer.d_model);
  fields({"n_layers", "num_hidden_layers"}, layers);
  fields({"n_heads", "num_attention_heads"}, layer.heads);
  fields("layer_norm_epsilon", layer.epsilon, 1e-5);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
  fields.object("attn_config", [&model](const Fields& inner) { attention_fields(inner, model.layer); });
  layer.d_ff = 4 * layer.d_model;  // whatever expansion_ratio is
  // Other slopes than ALiBi's, otherwise.
  fields.require("n_heads", std::has_single_bit(static_cast<uint64_t>(layer.heads)), "a power of 2");
  fields.expect("expansion_ratio", 4);
  fields.expect("no_bias", true);
  fields.require("logit_scale", fields.absent("logit_scale"), "null");
  fields.irrelevant(
      "logit_scale resid_pdrop emb_pdrop learned_pos_emb embedding_fraction norm_type init_device "
      "init_config verbose "
      "tokenizer_name");
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const int64_t d = config.embedding.d_model;
  const std::string ours = "decoder.layers.#.", theirs = "transformer.blocks.#.";
  return with_rules(
      concatenated(
          theirs + "attn.Wqkv", Layout::same,
          {{ours + "self_attn.q_proj", d}, {ours + "self_attn.k_proj", d}, {ours + "self_attn.v_proj", d}}),
      {.rules = {{.ours = "embed_tokens", .theirs = "transformer.wte", .also = tied_head(config)},
                 {ours + "self_attn_layer_norm", theirs + "norm_1"},
                 {ours + "self_attn.out_proj", theirs + "attn.out_proj"},
                 {ours + "final_layer_norm", theirs + "norm_2"},
                 {ours + "fc1", theirs + "ffn.up_proj"},
                 {ours + "fc2", theirs + "ffn.down_proj"},
                 {"decoder.layer_norm", "transformer.norm_f"},
                 {"lm_head", "lm_head"}},
       .prefix = "transformer."});
}

Described<LanguageModelConfig> base() {
  Described<LanguageModelConfig> model = biased_base();
  model.layer.activation = Activation::gelu_exact;
  model.layer.feed_forward_bias = model.layer.norm_bias = false;
  model.layer.attention = {.bias = nn::ProjectionBiases::all(false),
                           .positions = {.kind = nn::PositionKind::alibi}};
  return model;
}

}  // namespace

LanguageFamily mpt_family() {
  return {.model_type = "mpt",
          .classes = {{"MptForCausalLM"}, {"MPTForCausalLM"}, {"MptModel"}},
          .base = base(),
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
