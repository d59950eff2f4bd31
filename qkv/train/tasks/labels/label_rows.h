#pragma once
// Labelled texts and tagged sentences as the model reads them.

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "qkv/data/labels/labelled_texts.h"
#include "qkv/data/labels/tagged_sentences.h"
#include "qkv/text/tokenizer.h"

namespace qkv::train {

// The label of tokens without one, which have no loss: all but the first of each word.
inline constexpr int32_t kNoLabel = -100;

struct LabelRow {
  std::vector<int32_t> ids, types;  // of the tokens; types: 1 in the second text of a pair, else 0
  std::vector<int32_t> labels;      // of a text: its label; of words: each token's; empty for numbers
  float value = 0;                  // the number to predict

  template <class Function>
  void members(const Function& function) {
    function(ids, types, labels, value);
  }
};

struct LabelRows {
  std::vector<LabelRow> items;
  int64_t cut = 0;  // texts that were cut to the maximum length
  // Words by label whose first token was cut off, or which have no token. They count as wrong.
  std::vector<int64_t> unreached;

  std::vector<int64_t> costs() const;  // tokens of each item
  int64_t labels() const;              // labelled places
  // Of ids, labels and values.
  uint64_t fingerprint() const;

  template <class Function>
  void members(const Function& function) {
    function(items, cut, unreached);
  }
};

// The labels of a training set in order: as numbers if all are whole numbers, else by bytes. Throws DataError
// naming the file for a single label.
std::vector<std::string> label_set(const data::LabelledTexts& texts);
std::vector<std::string> label_set(const data::TaggedSentences& sentences);

// Throws DataError naming file and line for a label that is not in the list.
void require_labels(const data::LabelledTexts& texts, const std::vector<std::string>& labels);
void require_labels(const data::TaggedSentences& sentences, const std::vector<std::string>& labels);
// The label as a number. Throws DataError naming file and line if it is not a finite one.
float number_of(const data::LabelledTexts& texts, const data::LabelledText& item);
void require_numbers(const data::LabelledTexts& texts);

// Tokenizes texts, cut to max_length tokens. An empty `labels`: the labels are numbers. Throws the errors of
// require_labels() or require_numbers(); DataError naming file and line for a text without tokens; Stopped.
LabelRows encode_texts(const data::LabelledTexts& texts, const text::Tokenizer& tokenizer,
                       const std::vector<std::string>& labels, int64_t max_length,
                       const std::atomic<bool>* stop = nullptr);

// Tokenizes sentences, the words joined by spaces. The label of a word is that of its first token. Sentences
// without a labelled token are left out.
LabelRows encode_sentences(const data::TaggedSentences& sentences, const text::Tokenizer& tokenizer,
                           const std::vector<std::string>& labels, int64_t max_length,
                           const std::atomic<bool>* stop = nullptr);

}  // namespace qkv::train
