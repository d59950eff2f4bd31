#include "qkv/decode/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/decode/beam.h"
#include "qkv/decode/constraints.h"
#include "qkv/decode/samples.h"
#include "qkv/decode/sampling.h"
#include "qkv/kernels/loss.h"
#include "qkv/ops/profile.h"

namespace qkv::decode {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// The best continuations of one row, best first, as many as `best` has room for; returns how many there are.
// What they are ordered by is the sum of log-probability and total, as rounding can make candidates of it
// equal that were not before.
size_t best_of_row(std::span<const float> log_probabilities, float total, int32_t row,
                   std::span<Candidate> best) {
  size_t found = 0;
  float worst = kImpossible;  // of the best so far, once there is no more room
  for (size_t id = 0; id < log_probabilities.size(); ++id) {
    const float sum = total + log_probabilities[id];
    if (!(sum > worst)) continue;
    size_t place = found < best.size() ? found++ : best.size() - 1;
    for (; place > 0 && best[place - 1].total < sum; --place) best[place] = best[place - 1];
    best[place] = {sum, log_probabilities[id], row, static_cast<int32_t>(id)};
    if (found == best.size()) worst = best.back().total;
  }
  return found;
}

// Where hypotheses are searched for one by one, tokens are chosen by logits, as transformers do; a repetition
// penalty is the one thing that tells them from log-probabilities.
bool needs_logits(const SearchOptions& options) {
  return options.beam == 1 && options.repetition_penalty != 1;
}

// The hypotheses of a batch, and where their rows are.
class Batch {
 public:
  Batch(const SpecialIds& special, std::span<const Request> requests, const SearchOptions& options)
      : special_(special), options_(options) {
    for (const Request& request : requests) {
      const int limit = options.limit(std::ssize(request.source), std::ssize(request.prefix));
      if (options.sampling) {
        sentences_.push_back(std::make_unique<Samples>(options, request, special.eos, limit));
      } else {
        sentences_.push_back(std::make_unique<Beam>(options, request, special.eos, limit));
      }
    }
    find_rows();
    ids_.assign(requests.size(), special.start);
  }

  bool done() const { return rows_of_.tokens() == 0; }
  Tensor ids() const { return Tensor::from(ids_, {rows_of_.tokens()}); }

  // Takes logits [rows, vocabulary] and goes one token further. Returns whether rows have changed place.
  bool advance(const Tensor& logits) {
    check_shape(logits);
    const int64_t rows = logits.rows(), vocabulary = logits.cols();
    const Tensor raw = needs_logits(options_) ? logits.clone() : Tensor();
    kernels::log_softmax(logits.data(), nullptr, logits.data(), rows, vocabulary);

    std::vector<std::vector<Candidate>> of_row(static_cast<size_t>(rows));
    std::vector<int32_t> sentence_of(static_cast<size_t>(rows));
    for (size_t s = 0; s < sentences_.size(); ++s) {
      for (int64_t r = begin(s); r < end(s); ++r)
        sentence_of[static_cast<size_t>(r)] = static_cast<int32_t>(s);
    }
    // A thread is worth waking for some ten microseconds of work.
    parallel_for(rows, std::max<int64_t>(1, 32768 / vocabulary), [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        const auto s = static_cast<size_t>(sentence_of[static_cast<size_t>(r)]);
        const auto span = [&](const Tensor& of) {
          return std::span(of.data() + r * vocabulary, static_cast<size_t>(vocabulary));
        };
        of_row[static_cast<size_t>(r)] = select(span(logits), raw.defined() ? span(raw) : span(logits), s,
                                                static_cast<int32_t>(r - begin(s)));
      }
    });

    for (size_t s = 0; s < sentences_.size(); ++s) {
      if (begin(s) < end(s))
        advance(s, std::span(of_row).subspan(static_cast<size_t>(begin(s)),
                                             static_cast<size_t>(end(s) - begin(s))));
    }
    return find_rows();
  }

  const std::vector<int32_t>& parents() const { return parents_; }
  const Offsets& rows_of() const { return rows_of_; }
  std::vector<NBest> results() const {
    std::vector<NBest> results;
    for (const auto& sentence : sentences_) results.push_back(sentence->result());
    return results;
  }

 private:
  int64_t begin(size_t sentence) const { return rows_of_.begin(static_cast<int64_t>(sentence)); }
  int64_t end(size_t sentence) const { return rows_of_.end(static_cast<int64_t>(sentence)); }

  void check_shape(const Tensor& logits) const {
    if (logits.rank() != 2 || logits.dim(0) != rows_of_.tokens() || !logits.contiguous()) {
      throw ShapeError(concat("search: expected contiguous logits [", rows_of_.tokens(),
                              ", vocabulary], found ", logits.shape()));
    }
    for (const auto& sentence : sentences_) {
      if (sentence->length() == 0)
        check_prefix(sentence->request().prefix, logits.dim(1), special_.eos, options_);
    }
    if (special_.eos < 0 || special_.eos >= logits.dim(1)) {
      throw UsageError(
          concat("search: expected </s> to be one of the ", logits.dim(1), " ids, found ", special_.eos));
    }
  }

  // The continuations of one row that its sentence can have use for. scores is the same memory as
  // log_probabilities, or the logits.
  std::vector<Candidate> select(std::span<float> log_probabilities, std::span<float> scores, size_t sentence,
                                int32_t row) const {
    const Hypotheses& hypotheses = *sentences_[sentence];
    if (hypotheses.forced() != nullptr) return {};
    // +infinity among the logits leaves NaN too.
    if (std::ranges::any_of(log_probabilities, [](float x) { return std::isnan(x); })) {
      throw NumericError(concat("search: expected finite logits, found NaN or infinity for sentence ",
                                sentence, " of the batch, hypothesis ", row));
    }
    const Hypotheses::Row& parent = hypotheses.rows()[static_cast<size_t>(row)];
    std::vector<float> shaped;  // sampling changes the scores, and the log-probabilities are still wanted
    if (options_.sampling && scores.data() == log_probabilities.data()) {
      shaped.assign(scores.begin(), scores.end());
      scores = shaped;
    }
    std::vector<int32_t> history;
    if (looks_back(options_)) {
      history.push_back(special_.start);
      hypotheses.append_tokens(parent, history);
    }
    constrain(scores, history, options_);
    if (hypotheses.length() + 1 < options_.min_length) {
      for (size_t id = 0; id < scores.size(); ++id) {
        if (hypotheses.ends(static_cast<int32_t>(id))) scores[id] = kImpossible;
      }
    }

    std::vector<Candidate> candidates;
    const auto choose = [&](int32_t id) {
      const float log_probability = log_probabilities[static_cast<size_t>(id)];
      candidates.push_back({parent.total + log_probability, log_probability, row, id});
    };
    if (options_.sampling) {
      if (!shape_distribution(scores, *options_.sampling)) return {};
      for (size_t i = 0; i < hypotheses.wanted(); ++i) {
        const auto sample = parent.sample + static_cast<int32_t>(i);
        choose(pick(scores, random_number(options_.sampling->seed, hypotheses.request().key, sample,
                                          hypotheses.length())));
      }
    } else if (needs_logits(options_)) {
      const auto best = std::ranges::max_element(scores);
      if (*best != kImpossible) choose(static_cast<int32_t>(best - scores.begin()));
    } else {
      candidates.resize(hypotheses.wanted());
      candidates.resize(best_of_row(scores, parent.total, row, candidates));
    }
    return candidates;
  }

  void advance(size_t sentence, std::span<const std::vector<Candidate>> of_rows) {
    Hypotheses& hypotheses = *sentences_[sentence];
    if (const int32_t* id = hypotheses.forced()) {
      hypotheses.advance_by(*id);
      return;
    }
    std::vector<Candidate> candidates;
    for (const auto& of_row : of_rows) candidates.insert(candidates.end(), of_row.begin(), of_row.end());
    if (candidates.empty() && hypotheses.length() == std::ssize(hypotheses.request().prefix)) {
      throw DataError(concat("search: sentence ", sentence,
                             " of the batch: expected a token that may come first, found all forbidden"));
    }
    if (!options_.sampling) {
      const size_t kept = std::min(hypotheses.wanted(), candidates.size());
      std::ranges::partial_sort(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(kept), better);
      candidates.resize(kept);
    }
    hypotheses.advance(candidates);
  }

  // Numbers the rows of the unfinished hypotheses anew.
  bool find_rows() {
    const Offsets before = rows_of_;
    std::vector<int32_t> offsets = {0};
    ids_.clear();
    parents_.clear();
    for (size_t s = 0; s < sentences_.size(); ++s) {
      for (const Hypotheses::Row& row : sentences_[s]->rows()) {
        ids_.push_back(row.id);
        parents_.push_back(row.parent + (before.sequences() > 0 ? static_cast<int32_t>(begin(s)) : 0));
      }
      offsets.push_back(static_cast<int32_t>(ids_.size()));
    }
    rows_of_ = Offsets(std::move(offsets));
    if (!(rows_of_ == before)) return true;
    for (size_t r = 0; r < parents_.size(); ++r) {
      if (parents_[r] != static_cast<int32_t>(r)) return true;
    }
    return false;
  }

  SpecialIds special_;
  const SearchOptions& options_;
  std::vector<std::unique_ptr<Hypotheses>> sentences_;
  Offsets rows_of_;
  std::vector<int32_t> ids_, parents_;
};

}  // namespace

std::vector<NBest> search(Stepper& stepper, const SpecialIds& special, std::span<const Request> requests,
                          const SearchOptions& options) {
  const ProfileScope profile("search");
  options.validate();
  Batch batch(special, requests, options);
  while (!batch.done()) {
    const bool moved = batch.advance(stepper.step(batch.ids()));
    if (moved && !batch.done()) stepper.reorder(batch.parents(), batch.rows_of());
  }
  return batch.results();
}

}  // namespace qkv::decode
