#pragma once
// Outputs of a model that says, token by token, how likely each next one is: the most likely ones (greedy and
// beam search), or some drawn at random.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "qkv/models/hub/generation_defaults.h"
#include "qkv/search/shortlist.h"
#include "qkv/search/step_model.h"

namespace qkv::search {

// What log P(y | x) is divided by, so that long outputs can compete with short ones. len counts the tokens of
// y, the final </s> included.
enum class LengthPenalty {
  power,  // len^alpha, as Hugging Face transformers do
  gnmt,   // ((5 + len) / 6)^alpha (Wu et al. 2016, equation 14)
};

using models::EarlyStopping;

// How tokens are drawn at random. Each option works on what the one before it has left.
struct Sampling {
  double temperature = 1;  // logits are divided by it
  int top_k = 0;           // only the so many likeliest tokens (equal ones of the last too); 0: all
  double top_p = 1;        // of them, the fewest likeliest with so much probability together
  double min_p = 0;        // of them, those with at least so much of the likeliest one's probability
  uint64_t seed = 1;
};

struct SearchOptions {
  int beam = 4;  // hypotheses kept at each step; 1 is greedy search, whatever early_stopping says
  // Hypotheses returned for a sentence, best first; at most `beam`. Where they are drawn, how many are drawn;
  // where alternatives are asked for, how many of them.
  int nbest = 1;
  std::optional<Sampling> sampling = {};  // draws instead of searching; beam is then 1
  // Instead of one output's rivals: the nbest likeliest tokens at the first position behind the prefix, each
  // with the best output that goes on from it, in the order of those tokens.
  bool alternatives = false;
  double length_penalty = 0.6;  // alpha
  LengthPenalty form = LengthPenalty::power;
  // beta: a finished output's score has coverage_penalty() added, so that outputs which leave a part of the
  // source aside fall behind. It takes a model with attention over a source.
  double coverage_penalty = 0;
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
  std::vector<int32_t> suppress_tokens = {};  // ids that are never chosen, such as padding's
  // Sequences of ids that never come, within what the start token, a prefix and the output are together.
  std::vector<std::vector<int32_t>> bad_words = {};
  int no_repeat_ngram = 0;  // no sequence of so many tokens comes twice in the same; 0: no such rule
  // Above 1: tokens that have come already are made less likely (Keskar et al. 2019): their log-probability
  // (in greedy search and sampling: their logit) is multiplied by it where it is negative, else divided.
  float repetition_penalty = 1;
  // Makes the probabilities of the tokens that may come sum to 1 when the others are out, so that a forbidden
  // token costs an output nothing. Of beam search.
  bool renormalize = false;
  std::vector<int32_t> stop = {};  // ids that end an output as </s> does
  // Where given: outputs are made of what it allows for their source, of </s> and of `stop` alone, as if the
  // vocabulary had nothing else.
  std::shared_ptr<const Shortlist> shortlist = {};

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
  // The limit for a source and a prefix of so many tokens.
  int limit(int64_t source_tokens, int64_t prefix_tokens = 0) const;
};

// What the log-probability of `length` tokens is divided by.
double length_penalty(LengthPenalty form, double alpha, int64_t length);

// beta * sum_i log(min(attended[i], 1)), where attended[i] is what all tokens of an output together have
// attended to token i of the source: at most 0 (Wu et al. 2016, equation 14). Which attention that is:
// alignment_layer() in qkv/search/alignment.h, the mean of its heads.
double coverage_penalty(double beta, std::span<const float> attended);

struct Hypothesis {
  std::vector<int32_t> ids;  // with the prefix and the final </s> (or stop token), without the start token
  // log_probability / length_penalty(form, alpha, tokens) + coverage_penalty(beta, ...), where a prefix does
  // not count as tokens.
  double score = 0;
  // The sum of token_log_probabilities, added up in single precision from first to last as transformers do.
  double log_probability = 0;
  // Natural logarithms, one for each id; those of a prefix are 0. As the model has them; in a beam search
  // with a repetition penalty, as that makes them.
  std::vector<float> token_log_probabilities;
  // False where the length limit, that no token was allowed to come next, or Request::on_token forced the
  // </s>, whose log-probability is then 0.
  bool complete = true;
};

using NBest = std::vector<Hypothesis>;  // of one sentence, best first

// What a beam search thought of: a continuation of a hypothesis by a token.
struct TraceEntry {
  enum class Fate {
    kept,      // goes on: the next step's row is its place among those that were kept
    finished,  // ends, and was among the beam's best when it did, though later ones may have replaced it
    pruned,    // not among the best
  };
  int32_t row = 0;  // the hypothesis: its place among those that the step before kept, best first
  int32_t id = 0;
  float log_probability = 0;  // of the token
  float total = 0;            // of the hypothesis with it
  double penalty = 1;         // length_penalty() of the hypothesis with it
  double coverage = 0;        // coverage_penalty() of the hypothesis with it
  double score = 0;           // total / penalty + coverage
  Fate fate = Fate::pruned;
};

struct SearchTrace {
  std::vector<std::vector<TraceEntry>> steps;  // after the prefix; each from likely to unlikely
};

struct NewToken {
  int32_t sample = 0;  // of several that are drawn, or of several alternatives: which
  int32_t id = 0;
  float log_probability = 0;
};

// A sentence to decode.
struct Request {
  std::vector<int32_t> source;       // ids with their </s>; its length is for SearchOptions::limit()
  std::vector<int32_t> prefix = {};  // how the output begins; costs nothing
  uint64_t key = 0;                  // with the seed, decides what is drawn: nothing else does
  SearchTrace* trace = nullptr;      // where to note a beam search's steps; null: nowhere
  // Told each token behind the prefix, to the last, as soon as it is certain: at once in greedy search and
  // where tokens are drawn; in a beam search, whose past may change until its end, the best output's then.
  // What returns false has heard enough of that output, which ends there.
  std::function<bool(const NewToken&)> on_token = {};
};

// The outputs of each sentence, at most options.nbest (fewer only where no more exist). A sentence's result
// depends on its request and its own logits alone. Candidates that are equally likely are taken in the order
// of their parents, then of their ids. Throws UsageError for bad options and for a prefix that is too long or
// has an id that ends it or is none, NumericError if a logit is NaN or +infinity, DataError if every first
// token of a sentence is forbidden, and what StepModel::check() throws. An Engine (qkv/search/engine.h) does
// the same for sentences that come one by one.
std::vector<NBest> search(StepModel& step_model, const SpecialIds& special, std::span<const Request> requests,
                          const SearchOptions& options);

// Throws the UsageError for a prefix that search() does. vocabulary: how many ids there are.
void check_prefix(Ids prefix, int64_t vocabulary, int32_t eos, const SearchOptions& options);

}  // namespace qkv::search
