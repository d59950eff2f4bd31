// Dense models with latent attention: MiniCPM 3 (Hu et al. 2024), with factors of the embeddings, sublayers
// and logits, and Youtu-LLM (Tencent 2025).

#include <cmath>

#include "qkv/models/families/latent/latent_family.h"

namespace qkv::models {
namespace {

void minicpm3_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  latent_fields(fields, model,
                {.llama = {.max_positions = 32768, .epsilon = 1e-5, .tied = true},
                 .query_rank = 768,
                 .rank = 256,
                 .plain = 64,
                 .rotated = 32,
                 .d_v = 0});
  fields("mlp_bias", layer.feed_forward_bias, false);
  fields("scale_emb", config.embedding.factor, 12);
  const double depth = std::sqrt(static_cast<double>(std::max<int64_t>(layers, 1)));
  const auto residual = [&](double scale) { return static_cast<float>(scale / depth); };
  double scale = double{layer.residual_scale} * depth;
  // The number of few digits with this effect, if there is one.
  if (const double brief = std::round(1e4 * scale) / 1e4; residual(brief) == layer.residual_scale)
    scale = brief;
  fields("scale_depth", scale, fields.is_null("scale_depth") ? depth : 1.4);
  layer.residual_scale = residual(scale);
  const auto width = static_cast<float>(std::max<int64_t>(layer.d_model, 1));
  int64_t base = std::llround(config.logit_scale * width);
  fields("dim_model_base", base, fields.is_null("dim_model_base") ? layer.d_model : 256);
  fields.require("dim_model_base", base >= 1, "at least 1");
  config.logit_scale = static_cast<float>(base) / width;
  fields.irrelevant("pretraining_tp");
}

void youtu_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  latent_fields(fields, model, {.llama = {.max_positions = 131072, .tied = true}});
  fields.expect("rope_interleave", true);
  fields.irrelevant("embedding_initializer_range");
}

}  // namespace

LanguageFamily minicpm3_family() {
  return {.model_type = "minicpm3",
          .classes = {{"MiniCPM3ForCausalLM"}, {"MiniCPM3Model"}},
          .base = llama_base(),
          .table = minicpm3_table,
          .weight_map = [](const LanguageModelConfig& config) {
            return latent_weight_map(config, false, llama_weight_map(config));
          }};
}

LanguageFamily youtu_family() {
  return {.model_type = "youtu",
          .classes = {{"YoutuForCausalLM"}, {"YoutuModel"}},
          .base = llama_base(),
          .table = youtu_table,
          .weight_map = [](const LanguageModelConfig& config) {
            return latent_weight_map(config, true, llama_weight_map(config));
          }};
}

}  // namespace qkv::models
