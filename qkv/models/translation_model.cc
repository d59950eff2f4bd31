#include "qkv/models/translation_model.h"

#include "qkv/models/hub/pretrained.h"

namespace qkv::models {

TranslationModel load_translation_model(const std::filesystem::path& folder, const LoadOptions& options) {
  TranslationModel model;
  model.transformer = load_transformer(folder, options);
  model.config = model.transformer->config();
  model.tokenizer = std::make_unique<const text::TranslationTokenizer>(text::TranslationTokenizer::load(
      folder, {.source = model.config.source_vocabulary, .target = model.config.target_vocabulary}));
  model.generation = load_generation_defaults(folder);
  return model;
}

}  // namespace qkv::models
