// GPT-2 (Radford et al. 2019): pre-norm, learned positions, a fused projection of queries, keys and values,
// and transposed weights ([inputs, outputs], as in TensorFlow's convolutions of width 1).

#include <array>

#include "qkv/base/error.h"
#include "qkv/models/hub/config_fields.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

template <class Fields, class Config>
void visit_gpt2_fields(const Fields& fields, Config& config, Blocks& blocks) {
  nn::LayerOptions& layer = blocks.layer;
  fields("vocab_size", config.vocabulary);
  fields("n_positions", config.max_positions);
  fields("n_embd", layer.d_model);
  fields("n_layer", blocks.layers);
  fields("n_head", layer.heads);
  fields("n_inner", layer.d_ff, 4 * layer.d_model);
  fields("activation_function", layer.activation, "gelu_new");
  fields("layer_norm_epsilon", layer.epsilon, 1e-5);
  fields("resid_pdrop", layer.dropout, 0.1);
  fields("embd_pdrop", config.embedding.dropout, 0.1);
  fields("attn_pdrop", layer.attention_dropout, 0.1);
  fields("tie_word_embeddings", config.tied, true);
  fields("bos_token_id", config.bos_ids);
  fields("eos_token_id", config.eos_ids);
}

LanguageModelConfig parse(const ConfigReader& reader) {
  reader.require_class({"GPT2LMHeadModel", "GPT2DoubleHeadsModel", "GPT2Model"});
  LanguageModelConfig config{.embedding = {.scale = false, .positions = {.kind = nn::PositionKind::learned}},
                             .decoder = {.final_norm = true}};
  Blocks blocks{.layer = {.norm = nn::NormPlacement::pre}};
  visit_gpt2_fields(FieldReader(reader), config, blocks);
  config.decoder.layers = blocks.list();
  config.embedding.d_model = blocks.layer.d_model;
  config.embedding.positions.max_positions = config.max_positions;
  reader.require_boolean("scale_attn_weights", true);
  reader.require_boolean("scale_attn_by_inverse_layer_idx", false);
  reader.require_boolean("add_cross_attention", false);
  reader.require_boolean("is_encoder_decoder", false);
  // n_ctx repeats n_positions; upcasting concerns half precision; summaries belong to a head that is not
  // implemented.
  constexpr std::array<std::string_view, 10> kIrrelevant{"n_special",
                                                         "predict_special_tokens",
                                                         "n_ctx",
                                                         "reorder_and_upcast_attn",
                                                         "summary_activation",
                                                         "summary_first_dropout",
                                                         "summary_type",
                                                         "summary_use_proj",
                                                         "summary_proj_to_labels",
                                                         "id2label"};
  reader.reject_unknown_model_fields(kIrrelevant);
  return config;
}

ConfigWriter serialize(const LanguageModelConfig& config) {
  Blocks blocks = Blocks::of(config.decoder);
  const nn::LayerOptions& layer = blocks.layer;
  const auto usual = [&](int64_t width) { return width == 0 || width * layer.heads == layer.d_model; };
  const bool fits =
      config.embedding.positions.kind == nn::PositionKind::learned &&
      config.embedding.positions.first_row == 0 && config.embedding.positions.pad_id < 0 &&
      has_plain_scores(layer) && config.logit_softcap == 0 &&
      config.embedding.positions.max_positions == config.max_positions && config.embedding.token_types == 0 &&
      !config.embedding.norm && !config.embedding.scale && config.decoder.final_norm &&
      layer.norm == nn::NormPlacement::pre && layer.norm_kind == nn::NormKind::layer && !layer.gated &&
      layer.attention.bias == nn::ProjectionBiases{} && layer.feed_forward_bias && usual(layer.d_k) &&
      usual(layer.d_v) && (layer.key_heads == 0 || layer.key_heads == layer.heads) &&
      layer.attention.positions.kind == nn::PositionKind::none;
  if (!fits) {
    throw UsageError(
        "gpt2: expected learned positions, pre-norm blocks with layer norms, biases and as many "
        "key heads, found another model");
  }
  ConfigWriter writer("gpt2", "GPT2LMHeadModel");
  visit_gpt2_fields(FieldWriter(writer), config, blocks);
  return writer;
}

WeightMap weight_map(const LanguageModelConfig& config) {
  constexpr Layout kTurned = Layout::transposed;
  return {.rules = {{.ours = "embed_tokens", .theirs = "transformer.wte", .also = tied_head(config)},
                    {"embed_positions", "transformer.wpe"},
                    {"decoder.layers.#.self_attn_layer_norm", "transformer.h.#.ln_1"},
                    {"decoder.layers.#.self_attn.q_proj", "transformer.h.#.attn.c_attn", kTurned, 0, 3},
                    {"decoder.layers.#.self_attn.k_proj", "transformer.h.#.attn.c_attn", kTurned, 1, 3},
                    {"decoder.layers.#.self_attn.v_proj", "transformer.h.#.attn.c_attn", kTurned, 2, 3},
                    {"decoder.layers.#.self_attn.out_proj", "transformer.h.#.attn.c_proj", kTurned},
                    {"decoder.layers.#.final_layer_norm", "transformer.h.#.ln_2"},
                    {"decoder.layers.#.fc1", "transformer.h.#.mlp.c_fc", kTurned},
                    {"decoder.layers.#.fc2", "transformer.h.#.mlp.c_proj", kTurned},
                    {"decoder.layer_norm", "transformer.ln_f"},
                    {"lm_head", "lm_head"}},
          .prefix = "transformer.",
          .computed = {".attn.bias", ".attn.masked_bias"}};  // the causal mask
}

}  // namespace

LanguageFamily gpt2_family() { return {"gpt2", parse, serialize, weight_map}; }

}  // namespace qkv::models
