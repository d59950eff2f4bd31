#pragma once
// The files that PyPI's sentence-transformers writes beside a model: how a sentence becomes a vector.

#include <filesystem>

#include "qkv/pipelines/embed.h"

namespace qkv::pipelines {

// The options of modules.json, of the files of the modules that it lists, of sentence_bert_config.json, and
// the prompt that config_sentence_transformers.json puts before every sentence. See
// TextEmbedder::default_options().
TextEmbedOptions sentence_transformer_options(const std::filesystem::path& folder,
                                              const models::TextEncoder& model,
                                              const text::Tokenizer& tokenizer);

}  // namespace qkv::pipelines
