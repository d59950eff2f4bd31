#pragma once
// Evaluates a language model on held-out text, and writes samples of its text.

#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "qkv/data/token_documents.h"
#include "qkv/metrics/perplexity.h"
#include "qkv/models/language_model.h"
#include "qkv/text/tokenizer.h"
#include "qkv/train/task.h"

namespace qkv::train {

struct LmScore {
  double nll = 0;       // sum of -log p[token], natural logarithms
  int64_t labels = 0;   // predicted tokens, end tokens included
  int64_t bytes = 0;    // of the text
  int64_t unknown = 0;  // tokens that stand for characters outside the vocabulary

  double loss() const { return nll / static_cast<double>(labels); }  // nats per token
  double perplexity() const { return metrics::perplexity(loss()); }
  // Comparable between tokenizers, unless there are unknown tokens, which say less than their characters.
  double bits_per_byte() const { return nll / std::numbers::ln2 / static_cast<double>(bytes); }
};

// Half of a model's positions, rounded up.
inline int64_t usual_stride(int64_t max_positions) { return max_positions / 2 + max_positions % 2; }

struct LmScoring {
  // Tokens by which windows advance; a token is predicted from at least max_positions - stride tokens before
  // it, except at the beginning of its document. 0: usual_stride().
  int64_t stride = 0;
  int64_t batch_tokens = 8192;  // of a batch; no effect on the result
};

// The score of documents by a model, without dropout. Each token is predicted once, from the tokens before it
// in its document: see data::evaluation_windows(). Nothing if the request's stop became true. Throws
// UsageError for a stride out of range, DataError if nothing is to be predicted or an id is outside the
// vocabulary.
std::optional<LmScore> score_documents(const models::LanguageModel& model,
                                       const data::TokenDocuments& documents, const LmScoring& options = {},
                                       const EvaluationRequest& request = {});

struct LmSampling {
  std::vector<int32_t> prompt;  // not shown; at least one token
  int64_t max_tokens = 80;
  int64_t max_characters = 80;
  double temperature = 0.8;
  uint64_t key = 0;  // determines the random numbers
};

// A line of text that the model writes after the prompt, sampled with a fixed seed. Line ends are shown as ↵.
std::string sample_line(const models::LanguageModel& model, const text::Tokenizer& tokenizer,
                        const LmSampling& options);

}  // namespace qkv::train
