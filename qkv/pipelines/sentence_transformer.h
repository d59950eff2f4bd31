#pragma once
// Reads the configuration files that PyPI's sentence-transformers writes beside a model.

#include <filesystem>

#include "qkv/pipelines/embed.h"

namespace qkv::pipelines {

// Options from modules.json, the files of its modules, sentence_bert_config.json, and the prompt that
// config_sentence_transformers.json prepends to every sentence. See TextEmbedder::default_options().
TextEmbedOptions sentence_transformer_options(const std::filesystem::path& folder,
                                              const models::TextEncoder& model,
                                              const text::Tokenizer& tokenizer);

}  // namespace qkv::pipelines
