#pragma once
// Outputs of a model that gives the probability of each next token: the most likely ones (greedy and beam
// search), or samples.

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
enum class LengthPenaltyType {
  power,  // len^alpha, as Hugging Face transformers do
  gnmt,   // ((5 + len) / 6)^alpha (Wu et al. 2016, equation 14)
};

using models::EarlyStopping;

// How tokens are sampled. Each option applies to the tokens that the one before it has kept.
struct Sampling {
  double temperature = 1;  // logits are divided by it; above 0
  int top_k = 0;           // keeps the k likeliest tokens, and those as likely as the last of them; 0: all
  double top_p = 1;  // keeps the fewest likeliest tokens whose probabilities sum to p (Holtzman et al. 2020)
  double min_p = 0;  // keeps the tokens with at least this fraction of the likeliest one's probability
  uint64_t seed = 1;
};

struct SearchOptions {
  int beam = 4;  // hypotheses kept at each step; 1 is greedy search, whatever early_stopping is
  // Hypotheses returned, best first; at most `beam`. With sampling, the number of samples; with alternatives,
  // the number of those.
  int nbest = 1;
  std::optional<Sampling> sampling = {};  // samples in place of a search; beam is then 1
  // The nbest likeliest tokens at the first position after the prefix, in that order, each with the best
  // output that begins with it.
  bool alternatives = false;
  double length_penalty = 0.6;  // alpha: larger values favour longer outputs
  LengthPenaltyType length_penalty_type = LengthPenaltyType::power;
  // beta: coverage_penalty() is added to an output's score, which lowers outputs that leave parts of the
  // source untranslated. Takes a model with attention over a source.
  double coverage_penalty = 0;
  EarlyStopping early_stopping = EarlyStopping::heuristic;
  // The most new tokens of an output: after the prefix, its end not counted. An output that reaches it gets
  // its </s> at no cost, as with transformers' forced_eos_token_id.
  int max_new_tokens = 510;
  // A second such limit, by the length of the source: max_source_factor * source tokens + max_source_extra.
  // It bounds the time that a hardly trained model, or noise as a source, can take. A factor of 0: no such
  // limit.
  double max_source_factor = 3;
  int max_source_extra = 49;
  // The fewest new tokens: before that an output cannot end.
  int min_new_tokens = 0;
  std::vector<int32_t> suppress_tokens = {};  // ids that are never chosen, such as padding's
  // Sequences of ids that never come, in the sequence of start token, prefix and output.
  std::vector<std::vector<int32_t>> bad_words = {};
  int no_repeat_ngram = 0;  // never repeats an n-gram of this size in that sequence; 0: off
  // Above 1: tokens that have come already become less likely (Keskar et al. 2019): their log-probability
  // (in greedy search and sampling: their logit) is multiplied by it where it is negative, else divided.
  float repetition_penalty = 1;
  // Of beam search: normalises the probabilities of the tokens that may come to a sum of 1, so that a
  // forbidden token costs an output nothing.
  bool renormalize = false;
  std::vector<int32_t> stop = {};  // ids that end an output as </s> does
  // Restricts the vocabulary of an output to what the shortlist allows for its source, </s> and `stop`.
  std::shared_ptr<const Shortlist> shortlist = {};

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
  // The most tokens of an output, its prefix and its end included, for sources and prefixes of these lengths.
  int limit(int64_t source_tokens, int64_t prefix_tokens = 0) const;
};

// What the log-probability of `length` tokens is divided by: length^alpha, or as LengthPenaltyType says.
double length_penalty(LengthPenaltyType type, double alpha, int64_t length);

// beta * sum_i log(min(attended[i], 1)) <= 0, where attended[i] is the attention that source token i gets
// from all tokens of an output together (Wu et al. 2016, equation 14): of the layer alignment_layer()
// (qkv/search/alignment.h), the mean of its heads.
double coverage_penalty(double beta, std::span<const float> attended);

struct Hypothesis {
  std::vector<int32_t> ids;  // with the prefix and the final </s> (or stop token), without the start token
  // log_probability / length_penalty(type, alpha, tokens) + coverage_penalty(beta, ...), where a prefix does
  // not count as tokens.
  double score = 0;
  // The sum of token_log_probabilities, added up in single precision from first to last as transformers do.
  double log_probability = 0;
  // Natural logarithms, one for each id; those of a prefix are 0. They are the model's; in a beam search with
  // a repetition penalty, the penalised ones.
  std::vector<float> token_log_probabilities;
  // False where the length limit, that no token was allowed to come next, or Request::on_token forced the
  // </s>, whose log-probability is then 0.
  bool complete = true;
};

using NBest = std::vector<Hypothesis>;  // of one sentence, best first

// A candidate of a beam search: a hypothesis continued by a token.
struct TraceEntry {
  enum class Fate {
    kept,      // continues: its rank among those kept is the next step's row
    finished,  // ended among the beam's best, though later ones may have replaced it
    pruned,    // not among the best
  };
  int32_t row = 0;  // the hypothesis: its rank among those that the step before kept, best first
  int32_t id = 0;
  float log_probability = 0;  // of the token
  float total = 0;            // of the hypothesis with it
  double penalty = 1;         // length_penalty() of the hypothesis with it
  double coverage = 0;        // coverage_penalty() of the hypothesis with it
  double score = 0;           // total / penalty + coverage
  Fate fate = Fate::pruned;
};

struct SearchTrace {
  std::vector<std::vector<TraceEntry>> steps;  // after the prefix; candidates from likely to unlikely
};

struct NewToken {
  int32_t sample = 0;  // the number of the sample or alternative
  int32_t id = 0;
  float log_probability = 0;
};

// A source to decode, and how.
struct Request {
  std::vector<int32_t> source;  // ids with their </s>, or a prompt
  SearchOptions options = {};
  std::vector<int32_t> prefix = {};  // the beginning of the output; costs nothing
  uint64_t key = 0;                  // with the seed, all that random numbers depend on
  SearchTrace* trace = nullptr;      // where a beam search records its candidates; null: nowhere
  // Called with each token after the prefix, the end included, as soon as it is certain: at once in greedy
  // search and sampling; at its end in a beam search, with the best output. To return false ends that output.
  // Called by the thread that calls Engine::step().
  std::function<bool(const NewToken&)> on_token = {};
};

// The outputs of each request, at most options.nbest (fewer only where no more exist). A result depends on
// its request and its own logits alone. Candidates that are equally likely are taken in the order of their
// parents, then of their ids. Throws UsageError for bad options and for a prefix with an id that ends an
// output or is outside the vocabulary, NumericError if a logit is NaN or +infinity, DataError if every first
// token is forbidden, and what StepModel::check() throws. An Engine (qkv/search/engine.h) does the same for
// requests that come one by one.
std::vector<NBest> search(StepModel& step_model, const SpecialIds& special,
                          std::span<const Request> requests);

// Lowers the limits of a request to what a model with so many positions can read. taken: positions before the
// output's, such as a start token or a prompt. Throws UsageError for a prefix that leaves none.
void fit_positions(Request& request, int64_t positions, int64_t taken);

// Throws the UsageError for a prefix that search() does. vocabulary: the number of ids.
void check_prefix(Ids prefix, int64_t vocabulary, int32_t eos, const SearchOptions& options);

}  // namespace qkv::search
