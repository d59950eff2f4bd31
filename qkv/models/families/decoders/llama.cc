// LLaMA (Touvron et al. 2023) and models of the same layout, with optional biases.

#include <array>

#include "qkv/base/error.h"
#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

LanguageModelConfig parse(const ConfigReader& reader) {
  reader.require_class({"LlamaForCausalLM", "LlamaModel"});
  LanguageModelConfig config = parse_llama_fields(reader);
  const bool attention_bias = reader.boolean("attention_bias", false),
             mlp_bias = reader.boolean("mlp_bias", false);
  config.decoder.each([&](nn::LayerOptions& layer) {
    layer.attention.bias = nn::ProjectionBiases::all(attention_bias);
    layer.feed_forward_bias = mlp_bias;
  });
  // A parallelisation setting that does not affect results; fields repeated in SmolLM's folders.
  constexpr std::array<std::string_view, 3> kIrrelevant{"pretraining_tp", "is_llama_config",
                                                        "rope_interleaved"};
  reader.reject_unknown_model_fields(kIrrelevant);
  return config;
}

ConfigWriter serialize(const LanguageModelConfig& config) {
  const nn::LayerOptions& layer = config.decoder.uniform();
  if (layer.attention.bias != nn::ProjectionBiases::all(layer.attention.bias.query))
    throw UsageError("llama: expected biases of all projections of attention or of none, found some");
  if (layer.attention.window != 0)
    throw UsageError(
        concat("llama: expected no window, found ", layer.attention.window, ", which mistral has"));
  ConfigWriter writer = serialize_llama_fields(config, "llama", "LlamaForCausalLM");
  writer.boolean("attention_bias", layer.attention.bias.query);
  writer.boolean("mlp_bias", layer.feed_forward_bias);
  return writer;
}

}  // namespace

LanguageFamily llama_family() { return {"llama", parse, serialize, llama_weight_map}; }

}  // namespace qkv::models
