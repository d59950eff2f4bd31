#pragma once
// Fields and tensors of LLaMA's layout, shared by the families that have it.

#include "qkv/models/hub/config_writer.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {

// Values of fields that a folder does not have.
struct LlamaDefaults {
  int64_t key_heads = 0;  // 0: as many as heads
  int64_t max_positions = 2048;
};

// Reads a model without biases and without a window; the family itself reads its other fields and rejects
// unknown ones. Throws DataError for other scalings of rotary positions, and for an encoder-decoder.
LanguageModelConfig parse_llama_fields(const ConfigReader& reader, const LlamaDefaults& defaults = {});
// The inverse, without biases and window. Throws UsageError naming the family for other blocks.
ConfigWriter serialize_llama_fields(const LanguageModelConfig& config, const char* family,
                                    const char* architecture);
WeightMap llama_weight_map(const LanguageModelConfig& config);

}  // namespace qkv::models
