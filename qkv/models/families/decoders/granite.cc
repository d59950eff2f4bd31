// Granite (IBM 2024): LLaMA's layout, with factors of the embeddings, scores, sublayers and logits.

#include <cmath>

#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<LanguageModelConfig>& model) {
  llama_fields(fields, model);
  attention_bias(fields, model.layer);
  fields("mlp_bias", model.layer.feed_forward_bias, false);
  fields("embedding_multiplier", model.config.embedding.factor, 1);
  fields("residual_multiplier", model.layer.residual_scale, 1);
  float scale = model.layer.attention.scale.value_or(1 / std::sqrt(static_cast<float>(model.layer.d_k)));
  fields("attention_multiplier", scale, 1);
  model.layer.attention.scale = scale;
  // The file has the divisor: the number of few digits whose inverse is the factor, if there is one.
  float& factor = model.config.logit_scale;
  double divisor = 1 / double{factor};
  if (const double brief = std::round(1e4 * divisor) / 1e4; static_cast<float>(1 / brief) == factor)
    divisor = brief;
  fields("logits_scaling", divisor, 1);
  fields.require("logits_scaling", divisor > 0, "a number above 0");
  factor = static_cast<float>(1 / divisor);
}

}  // namespace

LanguageFamily granite_family() {
  return {.model_type = "granite",
          .classes = {{"GraniteForCausalLM"}, {"GraniteModel"}},
          .base = llama_base(),
          .table = table,
          .weight_map = llama_weight_map};
}

}  // namespace qkv::models
