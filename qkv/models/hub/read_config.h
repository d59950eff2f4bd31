#pragma once
// The configurations of model folders, without their weights. For starting a training run from a folder.

#include <filesystem>
#include <string_view>

#include "qkv/models/image_encoder.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer.h"

namespace qkv::models {

// Reads config.json. Throws the errors of load_language_model() and its siblings, except those of
// weights: IoError, DataError naming the file and the field.
LanguageModelConfig read_language_model_config(const std::filesystem::path& folder);
TextEncoderConfig read_text_encoder_config(const std::filesystem::path& folder);
ImageEncoderConfig read_image_encoder_config(const std::filesystem::path& folder);
TransformerConfig read_transformer_config(const std::filesystem::path& folder);

// Throws UsageError unless a model of this configuration, heads included, can be saved in the family's format
// ("bert").
void require_expressible(const LanguageModelConfig& config, std::string_view model_type);
void require_expressible(const TextEncoderConfig& config, std::string_view model_type);
void require_expressible(const ImageEncoderConfig& config, std::string_view model_type);

}  // namespace qkv::models
