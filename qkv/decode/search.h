#pragma once
// Beam search: the most likely output of a model that says, token by token, how likely each next one is.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/tensor/ragged.h"

namespace qkv::decode {

// What log P(y | x) is divided by, so that long outputs can compete with short ones. len counts the tokens of
// y, the final </s> included.
enum class LengthPenalty {
  power,  // len^alpha, as Hugging Face transformers do
  gnmt,   // ((5 + len) / 6)^alpha (Wu et al. 2016, equation 14)
};

// When a sentence that has `beam` finished hypotheses is done.
enum class EarlyStopping {
  // Once the best unfinished one, scored as if it ended here, is no better than the worst finished one:
  // transformers' early_stopping=False. A penalty that favours length can make this stop a little early.
  heuristic,
  // Once no unfinished one could become better however it goes on: transformers' early_stopping="never".
  exact,
  // At once: transformers' early_stopping=True.
  when_full,
};

struct SearchOptions {
  int beam = 4;   // hypotheses kept at each step; 1 is greedy search, whatever early_stopping says
  int nbest = 1;  // hypotheses returned for a sentence, best first; at most `beam`
  double length_penalty = 0.6;  // alpha
  LengthPenalty form = LengthPenalty::power;
  EarlyStopping early_stopping = EarlyStopping::heuristic;
  // The most tokens of an output, </s> included. An output that is still unfinished one token before is given
  // its </s> there at no cost, as transformers' forced_eos_token_id does (whose max_length counts the start
  // token too: max_length here is one less).
  int max_length = 511;
  // A second limit, by the length of the source: max_source_factor * source tokens + max_source_extra. It
  // bounds the time that a model without sense (hardly trained, or given noise) can take. A factor of 0: no
  // such limit.
  double max_source_factor = 3;
  int max_source_extra = 50;
  // The fewest tokens of an output, </s> included: before that, </s> counts as impossible.
  int min_length = 1;
  std::vector<int32_t> forbidden = {};  // ids that are never chosen, such as padding's

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
  // The limit for a source of so many tokens.
  int limit(int64_t source_tokens) const;
};

// What the log-probability of `length` tokens is divided by.
double length_penalty(LengthPenalty form, double alpha, int64_t length);

struct Hypothesis {
  std::vector<int32_t> ids;  // with the final </s>, without the start token
  double score = 0;          // log_probability / length_penalty(form, alpha, ids.size())
  // The sum of token_log_probabilities, added up in single precision from first to last as transformers do.
  double log_probability = 0;
  std::vector<float> token_log_probabilities;  // natural logarithms, one for each id
  bool complete = true;  // false where the length limit forced the </s>, whose log-probability is then 0
};

using NBest = std::vector<Hypothesis>;  // of one sentence, best first

// A batch of sentences being decoded. At first each sentence has one row (one hypothesis).
class Stepper {
 public:
  virtual ~Stepper() = default;
  // The last token of each row, i32 [rows] -> the logits of the next one, [rows, vocabulary]; they are the
  // caller's to overwrite.
  virtual Tensor step(const Tensor& ids) = 0;
  // Row i continues what row parents[i] was; sentence s has rows rows_of.begin(s) to rows_of.end(s), none if
  // it is done.
  virtual void reorder(std::span<const int32_t> parents, const Offsets& rows_of) = 0;
};

struct SpecialIds {
  int32_t start = 0;  // what every output begins with, unseen
  int32_t eos = 0;    // what ends it
};

// The best outputs of each sentence, at most options.nbest (fewer only where no more exist). A sentence's
// result depends on its own logits alone. Candidates that are equally likely are taken in the order of their
// parents, then of their ids. Throws UsageError for bad options, NumericError if a logit is NaN or +infinity,
// DataError if every continuation of a sentence is forbidden.
std::vector<NBest> search(Stepper& stepper, const SpecialIds& special,
                          std::span<const int64_t> source_lengths, const SearchOptions& options);

}  // namespace qkv::decode
