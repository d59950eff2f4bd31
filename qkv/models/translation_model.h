#pragma once
// A translation folder: model, tokenizer, and recommended search options.

#include <filesystem>
#include <memory>

#include "qkv/models/hub/generation_defaults.h"
#include "qkv/models/hub/load_options.h"
#include "qkv/models/transformer.h"
#include "qkv/text/translation_tokenizer.h"

namespace qkv::models {

struct TranslationModel {
  TransformerConfig config;
  std::shared_ptr<const Transformer> transformer;  // shared with step models
  std::unique_ptr<const text::TranslationTokenizer> tokenizer;
  GenerationDefaults generation;
};

// Throws the errors of load_transformer() (qkv/models/hub/pretrained.h), text::TranslationTokenizer::load()
// and load_generation_defaults().
TranslationModel load_translation_model(const std::filesystem::path& folder, const LoadOptions& options = {});

}  // namespace qkv::models
