// GPT (Radford et al. 2018): GPT-2's layout with the norms after the sublayers and none after the last layer.

#include <array>

#include "qkv/models/families/gpt/gpt2_family.h"

namespace qkv::models {
namespace {

constexpr std::array<std::pair<std::string_view, Activation>, 4> kActivations{
    {{"gelu", Activation::gelu_tanh},
     {"relu", Activation::relu},
     {"silu", Activation::silu},
     {"swish", Activation::silu}}};

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  nn::LayerOptions& layer = model.layer;
  gpt2_fields(fields, model);
  // Its own name of the activation, in which "gelu" is GPT-2's "gelu_new".
  fields("afn", layer.activation, Words<Activation>(kActivations), Activation::gelu_tanh);
  fields.require("n_inner", layer.d_ff == 4 * layer.d_model, "4 * n_embd");
  if (!fields.reads()) fields.writer()->omit("activation_function n_inner");
}

WeightMap weight_map(const LanguageModelConfig& config) {
  const std::string model = "transformer.", ours = "decoder.layers.#.", theirs = model + "h.#.";
  const int64_t d = config.embedding.d_model;
  WeightMap map = with_rules(
      concatenated(
          theirs + "attn.c_attn", Layout::transposed,
          {{ours + "self_attn.q_proj", d}, {ours + "self_attn.k_proj", d}, {ours + "self_attn.v_proj", d}}),
      gpt2_weight_map(config, Layout::transposed));
  return with_rules({{.ours = "embed_tokens", .theirs = model + "tokens_embed", .also = tied_head(config)},
                     {"embed_positions", model + "positions_embed"}},
                    std::move(map));
}

LanguageFamily with_base(LanguageFamily family) {
  family.base = gpt2_base();
  family.base.config.decoder.final_norm = false;
  family.base.layer.norm = nn::NormPlacement::post;
  return family;
}

}  // namespace

LanguageFamily openai_gpt_family() {
  return with_base({.model_type = "openai-gpt",
                    .classes = {{"OpenAIGPTLMHeadModel"}, {"OpenAIGPTDoubleHeadsModel"}, {"OpenAIGPTModel"}},
                    .base = {},
                    .table = table,
                    .weight_map = weight_map});
}

}  // namespace qkv::models
