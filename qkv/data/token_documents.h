#pragma once
// Documents as token ids, and the windows of them that a language model reads.

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "qkv/data/batches.h"
#include "qkv/data/documents.h"
#include "qkv/data/token_rows.h"
#include "qkv/text/tokenizer.h"

namespace qkv::data {

// Tokens put around each document, and the one that is counted.
struct DocumentTokens {
  std::optional<int32_t> start, end, unknown;
};

// Document d is ids[begins[d]] .. ids[begins[d + 1] - 1]. A model predicts each token of a document but its
// first.
struct TokenDocuments {
  std::vector<int32_t> ids;
  std::vector<int64_t> begins{0};
  int64_t bytes = 0;    // of the texts, without the tokens around them
  int64_t unknown = 0;  // occurrences of DocumentTokens::unknown

  int64_t documents() const { return std::ssize(begins) - 1; }
  int64_t tokens() const { return std::ssize(ids); }
  int64_t labels() const;  // tokens to predict
  template <class Function>
  void members(const Function& function) {
    function(ids, begins, bytes, unknown);
  }
};

// Encodes the texts on threads() threads, without the special tokens that the tokenizer would add; the result
// does not depend on their number. Long documents are encoded in parts, cut after line ends. Throws Stopped
// soon after *stop becomes true.
TokenDocuments tokenize_documents(const Documents& documents, const text::Tokenizer& tokenizer,
                                  const DocumentTokens& special = {},
                                  const std::atomic<bool>* stop = nullptr);

// A hash of ids and bounds, and of the tokenizer's tokens.
uint64_t fingerprint(const TokenDocuments& documents, const text::Tokenizer& tokenizer);

// A part of a document: the model reads ids[begin] .. ids[begin + tokens - 1] and predicts, at each, the next
// id. The first `context` predictions are not counted in an evaluation.
struct TokenWindow {
  int64_t begin = 0;
  int32_t tokens = 0, context = 0;

  bool operator==(const TokenWindow&) const = default;
};

// The windows of an epoch, which predict every token once: documents cut into parts of at most `length`
// tokens. The first part of a longer document has a random length, a function of (seed, epoch), so that
// epochs cut at other positions. Throws UsageError for a length below 1, DataError if nothing is to be
// predicted.
std::vector<TokenWindow> training_windows(const TokenDocuments& documents, int64_t length, uint64_t seed,
                                          int64_t epoch);

// Windows for an evaluation, which count every token once: windows of a longer document advance by `stride`
// tokens, so that a counted prediction has at least length - stride tokens before it, except at the beginning
// of its document. stride: 1 to length. Throws likewise.
std::vector<TokenWindow> evaluation_windows(const TokenDocuments& documents, int64_t length, int64_t stride);

// The inputs of windows as sequences, and the label of each token.
struct WindowRows {
  TokenRows inputs;
  std::vector<int32_t> labels;
};
WindowRows window_rows(const TokenDocuments& documents, std::span<const TokenWindow> windows);

// An endless sequence of batches of windows, in random order.
class WindowCursor {
 public:
  // budget: maximum tokens of a batch; a longer window is a batch of its own. Throws the errors of
  // training_windows() and BatchCursor. `documents` must outlive it.
  WindowCursor(const TokenDocuments& documents, int64_t length, int64_t budget, uint64_t seed,
               CursorState from = {});

  std::vector<TokenWindow> next();
  CursorState state() const { return cursor_->state(); }
  int64_t batches_in_epoch() const { return cursor_->batches_in_epoch(); }

 private:
  void plan(CursorState from);

  const TokenDocuments& documents_;
  int64_t length_, budget_;
  uint64_t seed_;
  std::vector<TokenWindow> windows_;  // of the current epoch
  std::optional<BatchCursor> cursor_;
};

}  // namespace qkv::data
