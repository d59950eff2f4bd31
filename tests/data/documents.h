#pragma once
// Documents for tests, with a small WordPiece vocabulary.

#include <string>
#include <vector>

#include "qkv/data/sentence_documents.h"
#include "qkv/text/tokenizer.h"
#include "tests/support/scratch.h"

namespace qkv::testing {

// Ids 0 to 4 are special; then words, and pieces that continue a word.
inline const std::vector<std::string>& small_vocabulary() {
  static const std::vector<std::string> tokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the",
                                               "cat",   "dog",   "sat",   "ran",   "under",  "##stand",
                                               "##ing", "a",     "mat",   "bog",   "."};
  return tokens;
}

inline std::filesystem::path write_vocabulary(const Scratch& scratch) {
  std::string text;
  for (const std::string& token : small_vocabulary()) text += token + "\n";
  return scratch.write("tokenizer/vocab.txt", text);
}

// Documents of sentences of `lengths[document]` tokens each, whose ids count up from `first`.
inline data::SentenceDocuments counted_documents(const std::vector<std::vector<int64_t>>& lengths,
                                                 int32_t first = 100) {
  data::SentenceDocuments result;
  for (const std::vector<int64_t>& document : lengths) {
    for (const int64_t tokens : document) {
      for (int64_t i = 0; i < tokens; ++i) result.ids.push_back(first++);
      result.sentence_begins.push_back(result.tokens());
    }
    result.document_begins.push_back(result.sentences());
  }
  return result;
}

}  // namespace qkv::testing
