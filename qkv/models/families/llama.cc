// LLaMA (Touvron et al. 2023) and what shares its layout: RMS norms, rotary positions, a gated feed-forward,
// fewer heads of keys than of queries, no biases.

#include <array>

#include "qkv/base/error.h"
#include "qkv/models/config_writer.h"
#include "qkv/models/family.h"

namespace qkv::models {
namespace {

// Where rotary positions are stretched for longer texts than a model was trained with, the angles are others.
void require_unscaled(const ConfigReader& rotary) {
  rotary.require_text("rope_type", "default");
  rotary.require_text("type", "default");  // the older word
  constexpr std::array<std::string_view, 1> kElsewhere{"rope_theta"};
  rotary.refuse_the_rest(kElsewhere);
}

double rotary_base(const ConfigReader& reader) {
  if (reader.has("rope_scaling")) require_unscaled(reader.object("rope_scaling"));
  if (!reader.has("rope_parameters")) return reader.number("rope_theta", 10000);
  const ConfigReader rotary = reader.object("rope_parameters");
  require_unscaled(rotary);
  return rotary.number("rope_theta", reader.number("rope_theta", 10000));
}

LanguageModelConfig read(const ConfigReader& reader) {
  const int64_t d_model = reader.whole("hidden_size"), heads = reader.whole("num_attention_heads");
  const int64_t width = reader.whole("head_dim", heads > 0 ? d_model / heads : 0);
  const bool attention_bias = reader.flag("attention_bias", false);
  LanguageModelConfig config{
      .vocabulary = reader.whole("vocab_size"),
      .max_positions = reader.whole("max_position_embeddings", 2048),
      .embedding = {.d_model = d_model, .scale = false, .positions = {}},
      .decoder = {.layers = reader.whole("num_hidden_layers"),
                  .layer = {.d_model = d_model,
                            .heads = heads,
                            .key_heads = reader.whole("num_key_value_heads", heads),
                            .d_k = width,
                            .d_v = width,
                            .d_ff = reader.whole("intermediate_size"),
                            .activation = reader.activation("hidden_act", "silu"),
                            .gated = true,
                            .norm = nn::NormPlacement::pre,
                            .norm_kind = nn::NormKind::rms,
                            .epsilon = static_cast<float>(reader.number("rms_norm_eps", 1e-6)),
                            .attention_bias = attention_bias,
                            .feed_forward_bias = reader.flag("mlp_bias", false),
                            .positions = {.kind = nn::PositionKind::rotary,
                                          .rotary_base = rotary_base(reader)},
                            .attention_dropout = static_cast<float>(reader.number("attention_dropout", 0))},
                  .final_norm = true},
      .tied = reader.flag("tie_word_embeddings", false),
      .bos_ids = reader.ids("bos_token_id"),
      .eos_ids = reader.ids("eos_token_id")};
  reader.require_flag("is_encoder_decoder", false);
  // A way to split products between machines, of the same result.
  constexpr std::array<std::string_view, 2> kIrrelevant{"pretraining_tp", "id2label"};
  reader.refuse_the_rest(kIrrelevant);
  return config;
}

std::string write(const LanguageModelConfig& config) {
  const nn::LayerOptions& layer = config.decoder.layer;
  const int64_t width = layer.d_k > 0 ? layer.d_k : layer.d_model / layer.heads;
  const bool fits = config.embedding.positions.kind == nn::PositionKind::none && !config.embedding.scale &&
                    config.embedding.token_types == 0 && !config.embedding.norm &&
                    config.decoder.final_norm && layer.norm == nn::NormPlacement::pre &&
                    layer.norm_kind == nn::NormKind::rms && layer.gated &&
                    layer.positions.kind == nn::PositionKind::rotary &&
                    width == (layer.d_v > 0 ? layer.d_v : layer.d_model / layer.heads);
  if (!fits) {
    throw UsageError(
        "llama: expected rotary positions and pre-norm blocks with RMS norms and gated "
        "feed-forwards, found another model");
  }
  ConfigWriter rotary;
  rotary.text("rope_type", "default");
  rotary.number("rope_theta", layer.positions.rotary_base);
  ConfigWriter writer("llama", "LlamaForCausalLM");
  writer.whole("vocab_size", config.vocabulary);
  writer.whole("max_position_embeddings", config.max_positions);
  writer.whole("hidden_size", layer.d_model);
  writer.whole("intermediate_size", layer.d_ff);
  writer.whole("num_hidden_layers", config.decoder.layers);
  writer.whole("num_attention_heads", layer.heads);
  writer.whole("num_key_value_heads", layer.key_heads > 0 ? layer.key_heads : layer.heads);
  writer.whole("head_dim", width);
  writer.activation("hidden_act", layer.activation);
  writer.number("rms_norm_eps", layer.epsilon);
  writer.object("rope_parameters", rotary);
  writer.number("rope_theta", layer.positions.rotary_base);  // where older programs look
  writer.flag("attention_bias", layer.attention_bias);
  writer.flag("mlp_bias", layer.feed_forward_bias);
  writer.number("attention_dropout", layer.attention_dropout);
  writer.flag("tie_word_embeddings", config.tied);
  writer.id("bos_token_id", config.bos_ids);
  writer.id("eos_token_id", config.eos_ids);
  return writer.json();
}

NameMap names(const LanguageModelConfig& /*config*/) {
  return {.rules = {{"embed_tokens", "model.embed_tokens"},
                    {"decoder.layers.#.self_attn_layer_norm", "model.layers.#.input_layernorm"},
                    {"decoder.layers.#.self_attn.q_proj", "model.layers.#.self_attn.q_proj"},
                    {"decoder.layers.#.self_attn.k_proj", "model.layers.#.self_attn.k_proj"},
                    {"decoder.layers.#.self_attn.v_proj", "model.layers.#.self_attn.v_proj"},
                    {"decoder.layers.#.self_attn.out_proj", "model.layers.#.self_attn.o_proj"},
                    {"decoder.layers.#.final_layer_norm", "model.layers.#.post_attention_layernorm"},
                    {"decoder.layers.#.gate", "model.layers.#.mlp.gate_proj"},
                    {"decoder.layers.#.fc1", "model.layers.#.mlp.up_proj"},
                    {"decoder.layers.#.fc2", "model.layers.#.mlp.down_proj"},
                    {"decoder.layer_norm", "model.norm"},
                    {"lm_head", "lm_head"}},
          .prefix = "model."};
}

}  // namespace

LanguageFamily llama_family() { return {"llama", read, write, names}; }

}  // namespace qkv::models
