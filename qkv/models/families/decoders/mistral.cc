// Mistral (Jiang et al. 2023): LLaMA's layout, with a sliding window in some models.

#include "qkv/base/error.h"
#include "qkv/models/families/decoders/llama_family.h"

namespace qkv::models {
namespace {

// transformers' defaults, for folders without the field. null is none of them: no window, as many key heads
// as heads.
constexpr int64_t kUsualWindow = 4096, kUsualKeyHeads = 8, kUsualPositions = 131072;

// Positions that a query attends to, its own included; 0: all.
int64_t read_window(const ConfigReader& reader) {
  if (reader.is_null("sliding_window")) return 0;
  const int64_t window = reader.integer("sliding_window", kUsualWindow);
  if (window < 1) reader.reject("sliding_window", "null, or at least 1 position");
  return window;
}

LanguageModelConfig parse(const ConfigReader& reader) {
  reader.require_class({"MistralForCausalLM", "MistralModel"});
  LanguageModelConfig config =
      parse_llama_fields(reader, {.key_heads = reader.is_null("num_key_value_heads") ? 0 : kUsualKeyHeads,
                                  .max_positions = kUsualPositions});
  config.decoder.each(
      [window = read_window(reader)](nn::LayerOptions& layer) { layer.attention.window = window; });
  reader.require_boolean("attention_bias", false);
  reader.require_boolean("mlp_bias", false);
  reader.reject_unknown_model_fields({});
  return config;
}

ConfigWriter serialize(const LanguageModelConfig& config) {
  const nn::LayerOptions& layer = config.decoder.uniform();
  if (layer.attention.bias != nn::ProjectionBiases::all(false) || layer.feed_forward_bias)
    throw UsageError("mistral: expected blocks without biases, found some, which llama has");
  ConfigWriter writer = serialize_llama_fields(config, "mistral", "MistralForCausalLM");
  if (layer.attention.window > 0) {
    writer.integer("sliding_window", layer.attention.window);
  } else {
    writer.null("sliding_window");
  }
  return writer;
}

}  // namespace

LanguageFamily mistral_family() { return {"mistral", parse, serialize, llama_weight_map}; }

}  // namespace qkv::models
