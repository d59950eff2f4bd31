// LLaMA (Touvron et al. 2023) and models of the same layout, with optional biases.

#include <array>

#include "qkv/base/error.h"
#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

LanguageModelConfig parse(const ConfigReader& reader) {
  reader.require_class({"LlamaForCausalLM", "LlamaModel"});
  LanguageModelConfig config = parse_llama_fields(reader);
  config.decoder.layer.attention_bias = reader.boolean("attention_bias", false);
  config.decoder.layer.feed_forward_bias = reader.boolean("mlp_bias", false);
  // A parallelisation setting that does not affect results; fields repeated in SmolLM's folders.
  constexpr std::array<std::string_view, 3> kIrrelevant{"pretraining_tp", "is_llama_config",
                                                        "rope_interleaved"};
  reader.reject_unknown_model_fields(kIrrelevant);
  return config;
}

ConfigWriter serialize(const LanguageModelConfig& config) {
  const nn::LayerOptions& layer = config.decoder.layer;
  if (layer.window != 0)
    throw UsageError(concat("llama: expected no window, found ", layer.window, ", which mistral has"));
  ConfigWriter writer = serialize_llama_fields(config, "llama", "LlamaForCausalLM");
  writer.boolean("attention_bias", layer.attention_bias);
  writer.boolean("mlp_bias", layer.feed_forward_bias);
  return writer;
}

}  // namespace

LanguageFamily llama_family() { return {"llama", parse, serialize, llama_weight_map}; }

}  // namespace qkv::models
