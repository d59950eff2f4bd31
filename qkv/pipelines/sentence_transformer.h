#pragma once
// What PyPI's sentence-transformers writes beside a model: how a sentence becomes a vector.

#include <filesystem>

#include "qkv/pipelines/text_encoder.h"

namespace qkv::pipelines {

// Of modules.json, the files of the modules that it lists, sentence_bert_config.json, and the prompt that
// config_sentence_transformers.json puts before every sentence. See TextEncoderPipeline::embed_options().
TextEmbedOptions sentence_transformer_options(const std::filesystem::path& folder,
                                              const models::TextEncoder& model,
                                              const text::Tokenizer& tokenizer);

}  // namespace qkv::pipelines
