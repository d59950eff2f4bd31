#pragma once
// Decoding: greedy search, beam search and sampling with a model of next-token probabilities.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "qkv/base/option_field.h"
#include "qkv/models/hub/generation_defaults.h"
#include "qkv/search/constraint.h"
#include "qkv/search/step_model.h"

namespace qkv::search {

class Shortlist;  // shortlist.h

// The divisor of log P(y | x), which lets long outputs compete with short ones. len: tokens of y, </s>
// included.
enum class LengthPenaltyType {
  power,  // len^alpha, as Hugging Face transformers do
  gnmt,   // ((5 + len) / 6)^alpha (Wu et al. 2016, equation 14)
};

Words<LengthPenaltyType> words(LengthPenaltyType);

using models::EarlyStopping;
using models::Sampling;

struct SearchOptions {
  int beam = 4;  // hypotheses kept at each step; 1: greedy search, whatever early_stopping says
  // Hypotheses returned, best first; at most `beam`. When sampling: the number of samples; with alternatives:
  // the number of alternatives.
  int nbest = 1;
  std::optional<Sampling> sampling = {};  // sample instead of searching; requires beam = 1
  // Returns the nbest most likely tokens at the first position after the prefix, in that order, each with its
  // best completion.
  bool alternatives = false;
  double length_penalty = 0.6;  // alpha: larger values favour longer outputs
  LengthPenaltyType length_penalty_type = LengthPenaltyType::power;
  // beta: adds coverage_penalty() to the score, which penalises untranslated source tokens. Needs a model
  // with cross attention.
  double coverage_penalty = 0;
  EarlyStopping early_stopping = EarlyStopping::heuristic;
  // Maximum number of new tokens, not counting prefix and end token.
  int max_new_tokens = 510;
  // Whether </s> at no cost counts as a token of an output that reaches the limit, as with transformers'
  // forced_eos_token_id, for its score.
  bool forced_eos = true;
  // A second limit, by source length: max_source_factor * source tokens + max_source_extra. It bounds
  // decoding time for hardly trained models and noisy sources. Factor 0: off.
  double max_source_factor = 3;
  int max_source_extra = 49;
  // Minimum number of new tokens: the end token is forbidden before.
  int min_new_tokens = 0;
  std::vector<int32_t> suppress_tokens = {};  // ids that are never chosen, such as padding
  // Token sequences that must not occur in the sequence of start token, prefix and output.
  std::vector<std::vector<int32_t>> bad_words = {};
  int no_repeat_ngram = 0;  // never repeat an n-gram of this size in that sequence; 0: off
  // Values above 1 make repeated tokens less likely (Keskar et al. 2019): multiplies negative
  // log-probabilities and divides positive ones (logits in greedy search and sampling).
  float repetition_penalty = 1;
  models::TokenRules rules = {};
  // Beam search only: renormalises the probabilities of the allowed tokens to a sum of 1, so that forbidden
  // tokens cost an output nothing.
  bool renormalize = false;
  std::vector<int32_t> stop = {};  // additional end tokens
  // Restricts the output vocabulary to the shortlist's tokens for the source, </s> and `stop`.
  std::shared_ptr<const Shortlist> shortlist = {};
  Constraints constraints = {};  // applied after the rules above

  // Groups of options: of a beam search; of Wu et al. 2016; the number of outputs.
  static constexpr std::string_view kBeamSearch = "beam search", kGnmt = "gnmt", kOutputs = "outputs";
  template <class Self, class Visit>
  static void visit_fields(Self&& self, const Visit& visit);
  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
  // Maximum number of output tokens, prefix and end token included, for these lengths.
  int limit(int64_t source_tokens, int64_t prefix_tokens = 0) const;
};

template <class Self, class Visit>
void SearchOptions::visit_fields(Self&& self, const Visit& visit) {
  constexpr Range penalties{.least = 0, .without_most = true, .expected = "a number that is not negative"};
  visit({"beam", "N", "Hypotheses kept at each step; 1: greedy search", between(1, 1024), kBeamSearch},
        self.beam);
  visit({"nbest", "N", "Outputs, best first", between(1, 1024), kOutputs}, self.nbest);
  visit({"length_penalty", "ALPHA", "Length penalty: larger values favour longer outputs", any_number(),
         kBeamSearch},
        self.length_penalty);
  visit({"length_penalty_type",
         "",
         "Divisor of an output's log-probability:\n"
         "  transformers: length ^ alpha;\n"
         "  gnmt: ((5 + length) / 6) ^ alpha (Wu et al. 2016)",
         {},
         kGnmt},
        self.length_penalty_type);
  visit({"coverage_penalty", "BETA",
         "Coverage penalty: penalise untranslated source words (Wu et al. 2016); 0: off", penalties, kGnmt},
        self.coverage_penalty);
  visit(
      {"max_new_tokens", "TOKENS", "Maximum length of an output, its end token not counted", between(1, 1e9)},
      self.max_new_tokens);
  visit({"min_new_tokens", "TOKENS", "Minimum length of an output, its end token not counted", at_least(0)},
        self.min_new_tokens);
  visit({"no_repeat_ngram", "TOKENS", "Never repeat an n-gram of this size; 0: off", at_least(0)},
        self.no_repeat_ngram);
  visit({"repetition_penalty", "FACTOR", "Above 1: repeated tokens become less likely; 1: off", above(0)},
        self.repetition_penalty);
}

// The divisor of the log-probability of `length` tokens, by LengthPenaltyType.
double length_penalty(LengthPenaltyType type, double alpha, int64_t length);

// beta * sum_i log(min(attended[i], 1)) <= 0, where attended[i] is the attention that source token i gets
// from all tokens of an output (Wu et al. 2016, equation 14), averaged over the heads of coverage_layer()
// (qkv/search/alignment.h).
double coverage_penalty(double beta, std::span<const float> attended);

struct Hypothesis {
  std::vector<int32_t> ids;  // prefix and final </s> (or stop token) included, start token excluded
  // log_probability / length_penalty(type, alpha, tokens) + coverage_penalty(beta, ...). The prefix does not
  // count as tokens.
  double score = 0;
  // The sum of token_log_probabilities, added in single precision from first to last, as transformers do.
  double log_probability = 0;
  // The model's natural logarithms, one per id; 0 for a prefix. In beam search with a repetition penalty or
  // other rules that change scores, the changed ones.
  std::vector<float> token_log_probabilities;
  // False if </s> was forced: by the length limit, because every token was forbidden, or by
  // Request::on_token. Its log-probability is then 0.
  bool complete = true;
};

using NBest = std::vector<Hypothesis>;  // of one sentence, best first

// A candidate of a beam search: a hypothesis extended by a token.
struct TraceEntry {
  enum class Fate {
    kept,      // continued: its rank among the kept candidates is its row in the next step
    finished,  // ended with a rank within the beam; later hypotheses may have replaced it
    pruned,    // not among the best
  };
  int32_t row = 0;  // the parent hypothesis: its rank among those kept by the previous step, best first
  int32_t id = 0;
  float log_probability = 0;  // of the token
  float total = 0;            // of the extended hypothesis
  double penalty = 1;         // length_penalty() of the extended hypothesis
  double coverage = 0;        // coverage_penalty() of the extended hypothesis
  double score = 0;           // total / penalty + coverage
  Fate fate = Fate::pruned;
};

struct SearchTrace {
  std::vector<std::vector<TraceEntry>> steps;  // after the prefix; candidates in descending order
};

struct TokenProbability {
  int32_t id = 0;
  float log_probability = 0;  // natural logarithm
};

struct NewToken {
  int32_t sample = 0;  // index of the sample or alternative
  int32_t id = 0;
  float log_probability = 0;
  // The most likely tokens of the step, best first, ties by id: Request::top of them. Valid during the call.
  std::span<const TokenProbability> top = {};
};

// A source to decode, with its options.
struct Request {
  std::vector<int32_t> source;  // ends in </s>, or a prompt
  // Of the source's ids below 0: in the place of tokens' embeddings (language models), or of the encoder's
  // result (encoder-decoders that read audio, whose ids are all below 0).
  models::EmbeddedRows rows = {};
  SearchOptions options = {};
  std::optional<int32_t> start = {};  // the start token, if not the model's (encoder-decoders)
  std::vector<int32_t> prefix = {};   // the forced beginning of the output; its log-probability counts as 0
  uint64_t key = 0;                   // with the seed, determines all random numbers
  SearchTrace* trace = nullptr;       // records the candidates of a beam search; null: none
  int top = 0;                        // tokens in NewToken::top, in greedy search and sampling; 0: none
  // Called with each token after the prefix, the end token included, as soon as it is final: at once in
  // greedy search and sampling, at the end for the best output of a beam search. Returning false ends that
  // output. Runs on the thread that calls Engine::step().
  std::function<bool(const NewToken&)> on_token = {};
  // Called with the place, counted from 0, of each token of the prefix and of the first one after it, and the
  // log-probabilities [vocabulary] there, before rules and constraints. May run on another thread.
  std::function<void(int64_t place, std::span<const float> log_probabilities)> on_prefix = {};
};

// The outputs of each request, at most options.nbest (fewer only if no more exist). A result depends on its
// request and its own logits alone. Ties are broken by parent, then by id. Throws UsageError for bad options
// and for a prefix with an end token or an id outside the vocabulary, NumericError for a logit that is NaN or
// +infinity, DataError if every first token is forbidden, and the errors of StepModel::check(). For requests
// that arrive over time, use an Engine (qkv/search/engine/engine.h).
std::vector<NBest> search(StepModel& step_model, const SpecialIds& special,
                          std::span<const Request> requests);

// Lowers the limits of a request to a model's number of positions. taken: positions before the output, such
// as the start token or a prompt. Throws UsageError for a prefix that leaves none.
void fit_positions(Request& request, int64_t positions, int64_t taken);

// Throws the UsageError of search() for a bad prefix. vocabulary: the number of ids.
void check_prefix(Ids prefix, int64_t vocabulary, int32_t eos, const SearchOptions& options);

}  // namespace qkv::search
