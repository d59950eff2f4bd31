#pragma once
// Model folders: config.json, model.safetensors (or its shards), generation_config.json and the tokenizer's
// files, as Hugging Face lays them out. What the layout of T5 or Marian can say is saved as "model_type":
// "t5" or "marian"; the rest, in Marian's files, as "qkv".

#include <filesystem>
#include <memory>

#include "qkv/models/generation_defaults.h"
#include "qkv/models/load_options.h"
#include "qkv/models/transformer.h"
#include "qkv/text/translation_tokenizer.h"

namespace qkv::models {

struct TranslationModel {
  TransformerConfig config;
  std::unique_ptr<const Transformer> transformer;
  std::unique_ptr<const text::TranslationTokenizer> tokenizer;
  GenerationDefaults generation;
};

// Weights that need no conversion stay in the mapped file. Throws IoError, or DataError naming file, tensor,
// what was expected and what was found.
TranslationModel load_translation_model(const std::filesystem::path& folder, const LoadOptions& options = {});

// Only the configuration and the weights, for a folder without a tokenizer.
TransformerConfig load_config(const std::filesystem::path& folder);
std::unique_ptr<Transformer> load_transformer(const std::filesystem::path& folder,
                                              const LoadOptions& options = {});

// The form of a model's weights.
WeightForm form_of(const Transformer& model);

// Writes config.json, generation_config.json and model.safetensors, each atomically, the weights last and in
// the form that they have.
void save_transformer(const std::filesystem::path& folder, const Transformer& model,
                      const GenerationDefaults& defaults);

}  // namespace qkv::models
