#pragma once
// Documents of sentences as token ids, for the pretraining of encoders.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkv/data/corpus.h"
#include "qkv/text/tokenizer.h"

namespace qkv::data {

// Counts of a text with one sentence a line and blank lines between documents.
struct DocumentCounts {
  int64_t documents = 0, sentences = 0;
  int64_t longest = 0;  // sentences of the longest document
};

// Reads a file, which gzip may compress, without tokenizing it. Throws IoError, and DataError for a file
// without sentences.
DocumentCounts count_documents(const std::filesystem::path& path);

// Throws DataError unless segments of one document and of another one exist: at least two documents, one of
// which has two sentences. `path` is named in the message.
void require_documents_for_pairs(const DocumentCounts& counts, const std::filesystem::path& path);

struct SentenceOptions {
  int64_t max_tokens = 509;              // of a sentence; the end of a longer one is cut off
  std::optional<int32_t> unknown = {};   // the id to count in SentenceDocuments::unknown
  OnBadLine bad_utf8 = OnBadLine::fail;  // skip: drop the sentence and count it
};

// Sentence s is ids[sentence_begins[s]] .. ids[sentence_begins[s + 1] - 1], without special tokens. Document
// d is the sentences document_begins[d] .. document_begins[d + 1] - 1. Neither is empty.
struct SentenceDocuments {
  std::vector<int32_t> ids;
  std::vector<int64_t> sentence_begins{0}, document_begins{0};
  int64_t cut = 0;               // sentences longer than max_tokens
  int64_t unknown = 0;           // tokens
  int64_t skipped_bad_utf8 = 0;  // sentences
  int64_t skipped_empty = 0;     // sentences without a token

  int64_t documents() const { return std::ssize(document_begins) - 1; }
  int64_t sentences() const { return std::ssize(sentence_begins) - 1; }
  int64_t tokens() const { return std::ssize(ids); }
  DocumentCounts counts() const;
  // "655 documents, 110646 sentences, 2912345 tokens (12 sentences cut, 3 unknown tokens)"
  std::string summary() const;
  // The entropy of the distribution of tokens, -sum p ln p, in nats: the loss of a model that knows only how
  // often each token occurs.
  double unigram_entropy() const;
  uint64_t fingerprint() const;  // changes with ids and bounds
  template <class Function>
  void members(const Function& function) {
    function(ids, sentence_begins, document_begins, cut, unknown, skipped_bad_utf8, skipped_empty);
  }
};

// Reads and tokenizes a file on threads() threads; the result does not depend on their number. Throws
// IoError; DataError for a file without sentences and, naming file and line, for invalid UTF-8; Stopped soon
// after *stop becomes true.
SentenceDocuments read_sentence_documents(const std::filesystem::path& path, const text::Tokenizer& tokenizer,
                                          const SentenceOptions& options = {},
                                          const std::atomic<bool>* stop = nullptr);

}  // namespace qkv::data
