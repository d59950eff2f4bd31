#pragma once
// The WordPiece tokenizer of a BERT in training, with its files.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "qkv/data/masking.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/train_tokenizer.h"
#include "qkv/train/tasks/start_folder.h"

namespace qkv::train {

struct BertTokenizer {
  text::Tokenizer tokenizer;
  data::MaskingVocabulary vocabulary;
  // tokenizer.json or vocab.txt, and their settings.
  FileContents files;

  // The tokens of the vocabulary, for fingerprints.
  uint64_t fingerprint() const;
  // The id of [UNK]; nothing without one.
  std::optional<int32_t> unknown() const;
  // Writes the files. tokenizer_config.json gets the special tokens and the class for transformers where it
  // lacks them. max_positions: of the model. Throws IoError.
  void save(const std::filesystem::path& folder, int64_t max_positions) const;
};

// The tokenizer of a folder, or in a tokenizer file such as vocab.txt. Throws the errors of
// text::Tokenizer::load() and data::MaskingVocabulary::of().
BertTokenizer open_bert_tokenizer(const std::filesystem::path& path);

// Throws the errors of text::train_tokenizer() and data::MaskingVocabulary::of().
BertTokenizer train_bert_tokenizer(const text::TokenizerTraining& options, const std::atomic<bool>* stop);

}  // namespace qkv::train
