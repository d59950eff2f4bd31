#pragma once
// Reads and writes the configuration files that PyPI's sentence-transformers writes beside a model.

#include <filesystem>
#include <string>

#include "qkv/pipelines/embed.h"

namespace qkv::pipelines {

// Options from modules.json, the files of its modules, sentence_bert_config.json, and the prompt that
// config_sentence_transformers.json prepends to every sentence. See TextEmbedder::default_options().
TextEmbedOptions sentence_transformer_options(const std::filesystem::path& folder,
                                              const models::TextEncoder& model,
                                              const text::Tokenizer& tokenizer);

// What modules.json describes: nothing without that file, vectors by a Pooling, sparse ones by a
// SpladePooling, or something else (a CrossEncoder).
enum class SentenceModules : uint8_t { none, dense, sparse, other };
SentenceModules sentence_modules(const std::filesystem::path& folder);

// Likewise those of a SparseEncoder. See SparseEmbedder::default_options().
SparseEmbedOptions sparse_encoder_options(const std::filesystem::path& folder,
                                          const models::TextEncoder& model, const text::Tokenizer& tokenizer);

// The maximum number of tokens of a text: of sentence_bert_config.json, else of tokenizer_config.json, and at
// most the model's.
int64_t max_text_length(const std::filesystem::path& folder, const models::TextEncoderConfig& config,
                        const text::Tokenizer& tokenizer);

// The prompt of that name in config_sentence_transformers.json. Throws DataError naming the file if it has
// none of that name, UsageError if there is no such file.
std::string named_prompt(const std::filesystem::path& folder, const std::string& name);

// For models::GgufExport: "mean", "cls" or "lasttoken"; empty without modules.json. Throws UsageError, naming
// the file, for another pooling and for a Dense, of which GGUF files have no counterpart; logs a missing
// Normalize, because readers of GGUF files scale vectors to length 1, a prompt, and a length to which texts
// are cut.
std::string gguf_pooling(const std::filesystem::path& folder);

// Writes modules.json, 1_Pooling/config.json and sentence_bert_config.json, so that sentence-transformers and
// `qkv embed` compute the vectors of these options, and removes a config_sentence_transformers.json, which
// could name a prompt. Throws UsageError for Pooling::pooler and for a prompt, IoError.
void write_sentence_transformer(const std::filesystem::path& folder, const TextEmbedOptions& options,
                                int64_t d_model);

}  // namespace qkv::pipelines
