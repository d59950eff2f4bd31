#pragma once
// Evaluates a translation model on a held-out corpus.

#include <optional>
#include <string>
#include <vector>

#include "qkv/data/translation_rows.h"
#include "qkv/models/transformer.h"
#include "qkv/text/translation_tokenizer.h"
#include "qkv/train/task.h"

namespace qkv::train {

// A held-out parallel corpus: token ids for the loss, text for BLEU.
struct ValidationSet {
  data::TokenStore store;
  std::vector<std::string> references;  // the target lines of the store's pairs, in order

  // `store` was built from text files, the second of which is `target`. Throws IoError, and DataError if the
  // file has fewer lines than the store refers to.
  static ValidationSet open(const data::TokenStore& store, const std::filesystem::path& target);
};

// The mean of -log p[token] (natural logarithm) over all target tokens, </s> included, without dropout and
// label smoothing. Nothing if the request's stop was set before the end.
std::optional<double> mean_nll(const models::Transformer& model, const data::TokenStore& store,
                               const text::SpecialIds& special, int64_t batch_tokens,
                               const EvaluationRequest& request = {});

struct ValidationBleuOptions {
  int64_t sentences = 0;        // number of leading sentences; 0: all
  int64_t beam = 1;             // 1: greedy
  int64_t batch_tokens = 4096;  // source and target tokens decoded at a time
};

// BLEU (sacreBLEU's defaults) of the model's translations. Nothing if the request's stop was set before the
// end.
std::optional<double> translation_bleu(const models::Transformer& model,
                                       const text::TranslationTokenizer& tokenizer, const ValidationSet& set,
                                       const ValidationBleuOptions& options,
                                       const EvaluationRequest& request = {});

}  // namespace qkv::train
