#pragma once
// Judging a translation model on a held-out corpus.

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "qkv/data/batches.h"
#include "qkv/models/transformer.h"
#include "qkv/text/translation_tokenizer.h"

namespace qkv::train {

// A held-out parallel corpus: as token ids for the loss, and as text for BLEU.
struct ValidationSet {
  data::TokenStore store;
  std::vector<std::string> references;  // the target's lines of the store's pairs, in their order

  // `store` was made of text files, of which `target` is the second. Throws IoError, and DataError where the
  // file has fewer lines than the store knows of.
  static ValidationSet open(data::TokenStore store, const std::filesystem::path& target);
};

// The mean over all target tokens, </s> included, of -log p[token] (natural logarithm), without dropout and
// label smoothing. Nothing where `stop` was set before the end.
std::optional<double> mean_nll(const models::Transformer& model, const data::TokenStore& store,
                               const text::SpecialIds& special, int64_t batch_tokens,
                               const std::atomic<bool>* stop = nullptr);

struct ValidationBleuOptions {
  int64_t sentences = 0;        // the first so many; 0: all
  int64_t beam = 1;             // 1: greedy
  int64_t batch_tokens = 4096;  // source and target tokens decoded at a time
};

// BLEU (sacreBLEU's defaults) of the model's translations. Nothing where `stop` was set before the end.
std::optional<double> translation_bleu(const models::Transformer& model,
                                       const text::TranslationTokenizer& tokenizer, const ValidationSet& set,
                                       const ValidationBleuOptions& options,
                                       const std::atomic<bool>* stop = nullptr);

}  // namespace qkv::train
