#pragma once
// The tokenizer of a language model, with its files.

#include <filesystem>
#include <optional>
#include <string>

#include "qkv/data/token_documents.h"
#include "qkv/text/tokenizer.h"
#include "qkv/train/tasks/start_folder.h"

namespace qkv::train {

struct LmTokenizer {
  text::Tokenizer tokenizer;
  int32_t start = 0, end = 0;      // the tokens around a document; often the same
  std::optional<int32_t> unknown;  // for characters that the tokenizer cannot express
  // tokenizer.json, or the older ones, and their settings.
  FileContents files;
};

// The tokenizer of a folder, or in a tokenizer file. Throws the errors of text::Tokenizer::load(), and
// DataError for a tokenizer without an end token.
LmTokenizer open_lm_tokenizer(const std::filesystem::path& path);

// A tokenizer.json from text::train_tokenizer(). An end token, <|endoftext|>, is added if it has none.
// Between documents it is the start token too, which the tokenizer then puts before a text, so that prompts
// begin as documents do in training.
LmTokenizer trained_lm_tokenizer(const std::string& json, data::DocumentBounds bounds);

// Writes the files. tokenizer_config.json gets the special tokens and the class that transformers need, if it
// lacks them, and "qkv_documents": what ends a document. max_positions: of the model. Throws IoError.
void save_lm_tokenizer(const LmTokenizer& tokenizer, const std::filesystem::path& folder,
                       int64_t max_positions, data::DocumentBounds bounds);

// "qkv_documents" of a folder's tokenizer_config.json; nothing without it. Throws DataError for an unknown
// value.
std::optional<data::DocumentBounds> saved_document_bounds(const std::filesystem::path& folder);

}  // namespace qkv::train
