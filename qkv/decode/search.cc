#include "qkv/decode/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/decode/beam.h"
#include "qkv/kernels/loss.h"
#include "qkv/ops/profile.h"

namespace qkv::decode {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// The `count` best continuations of one row, best first, into `best`, which has room for them; returns how
// many there are. log_probabilities [vocabulary] + total is what they are ordered by: the sum, as rounding
// can make candidates of it equal that were not before.
size_t best_of_row(const float* log_probabilities, int64_t vocabulary, float total, int32_t row, size_t count,
                   Candidate* best) {
  size_t found = 0;
  float worst = kImpossible;  // of the best so far, once there are `count`
  for (int64_t id = 0; id < vocabulary; ++id) {
    const float sum = total + log_probabilities[id];
    if (!(sum > worst)) continue;
    size_t place = found < count ? found++ : count - 1;
    for (; place > 0 && best[place - 1].total < sum; --place) best[place] = best[place - 1];
    best[place] = {sum, log_probabilities[id], row, static_cast<int32_t>(id)};
    if (found == count) worst = best[count - 1].total;
  }
  return found;
}

// The beams of a batch, and where their rows are.
class Batch {
 public:
  Batch(const SpecialIds& special, std::span<const int64_t> source_lengths, const SearchOptions& options)
      : special_(special), options_(options) {
    beams_.reserve(source_lengths.size());
    for (const int64_t length : source_lengths) {
      beams_.emplace_back(options, special.eos, options.limit(length));
    }
    find_rows();
    ids_.assign(source_lengths.size(), special.start);
  }

  bool done() const { return rows_of_.tokens() == 0; }
  Tensor ids() const { return Tensor::from(ids_, {rows_of_.tokens()}); }

  // Takes logits [rows, vocabulary] and goes one token further. Returns whether rows have changed place.
  bool advance(const Tensor& logits) {
    check_shape(logits);
    const int64_t rows = logits.rows(), vocabulary = logits.cols();
    kernels::log_softmax(logits.data(), nullptr, logits.data(), rows, vocabulary);
    // More than 2 * beam candidates can be wanted only where the vocabulary has them.
    const size_t wanted = 2 * static_cast<size_t>(options_.beam);
    std::vector<Candidate> candidates(static_cast<size_t>(rows) * wanted);
    std::vector<size_t> found(static_cast<size_t>(rows));
    std::vector<int32_t> sentence_of(static_cast<size_t>(rows));
    for (size_t s = 0; s < beams_.size(); ++s) {
      for (int64_t r = begin(s); r < end(s); ++r)
        sentence_of[static_cast<size_t>(r)] = static_cast<int32_t>(s);
    }
    // A thread is worth waking for some ten microseconds of work.
    parallel_for(rows, std::max<int64_t>(1, 32768 / vocabulary), [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        const auto s = static_cast<size_t>(sentence_of[static_cast<size_t>(r)]);
        const auto row = static_cast<int32_t>(r - begin(s));
        found[static_cast<size_t>(r)] = select(logits.data() + r * vocabulary, vocabulary, s, row,
                                               &candidates[static_cast<size_t>(r) * wanted]);
      }
    });

    std::vector<Candidate> of_sentence;
    for (size_t s = 0; s < beams_.size(); ++s) {
      if (begin(s) == end(s)) continue;
      of_sentence.clear();
      for (int64_t r = begin(s); r < end(s); ++r) {
        const auto first = candidates.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(r) * wanted);
        of_sentence.insert(of_sentence.end(), first,
                           first + static_cast<std::ptrdiff_t>(found[static_cast<size_t>(r)]));
      }
      if (of_sentence.empty()) {
        throw DataError(concat("search: sentence ", s,
                               " of the batch: expected a token that may come next, found all ", vocabulary,
                               " forbidden"));
      }
      const size_t kept = std::min(wanted, of_sentence.size());
      std::partial_sort(of_sentence.begin(), of_sentence.begin() + static_cast<std::ptrdiff_t>(kept),
                        of_sentence.end(), better);
      beams_[s].advance(std::span(of_sentence).first(kept));
    }
    return find_rows();
  }

  const std::vector<int32_t>& parents() const { return parents_; }
  const Offsets& rows_of() const { return rows_of_; }
  std::vector<NBest> results() const {
    std::vector<NBest> results;
    for (const Beam& beam : beams_) results.push_back(beam.result());
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
    if (special_.eos < 0 || special_.eos >= logits.dim(1)) {
      throw UsageError(
          concat("search: expected </s> to be one of the ", logits.dim(1), " ids, found ", special_.eos));
    }
  }

  size_t select(float* log_probabilities, int64_t vocabulary, size_t sentence, int32_t row,
                Candidate* best) const {
    // +infinity among the logits leaves NaN too.
    bool bad = false;
    for (int64_t id = 0; id < vocabulary; ++id) bad |= std::isnan(log_probabilities[id]);
    if (bad) {
      throw NumericError(concat("search: expected finite logits, found NaN or infinity for sentence ",
                                sentence, " of the batch, hypothesis ", row));
    }
    for (const int32_t id : options_.forbidden) {
      if (id >= 0 && id < vocabulary) log_probabilities[id] = kImpossible;
    }
    const Beam& beam = beams_[sentence];
    if (!beam.eos_allowed()) log_probabilities[special_.eos] = kImpossible;
    return best_of_row(log_probabilities, vocabulary, beam.rows()[static_cast<size_t>(row)].total, row,
                       2 * static_cast<size_t>(options_.beam), best);
  }

  // Numbers the rows of the unfinished hypotheses anew.
  bool find_rows() {
    const Offsets before = rows_of_;
    std::vector<int32_t> offsets = {0};
    ids_.clear();
    parents_.clear();
    for (size_t s = 0; s < beams_.size(); ++s) {
      for (const Beam::Row& row : beams_[s].rows()) {
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
  std::vector<Beam> beams_;
  Offsets rows_of_;
  std::vector<int32_t> ids_, parents_;
};

void require(bool good, const char* field, const char* expected, double found) {
  if (!good) throw UsageError(concat(field, ": expected ", expected, ", found ", found));
}

}  // namespace

void SearchOptions::validate() const {
  require(beam >= 1 && beam <= 1024, "beam", "1 to 1024", beam);
  require(nbest >= 1, "nbest", "at least 1", nbest);
  if (nbest > beam)
    throw UsageError(concat("nbest: expected at most the beam's size of ", beam, ", found ", nbest));
  require(std::isfinite(length_penalty), "length_penalty", "a finite number", length_penalty);
  require(max_length >= 2, "max_length", "at least 2", max_length);
  require(std::isfinite(max_source_factor) && max_source_factor >= 0, "max_source_factor",
          "a number that is not negative", max_source_factor);
  require(max_source_extra >= 2, "max_source_extra", "at least 2", max_source_extra);
  require(min_length >= 0, "min_length", "a number that is not negative", min_length);
  if (min_length > max_length) {
    throw UsageError(
        concat("min_length: expected at most max_length = ", max_length, ", found ", min_length));
  }
}

int SearchOptions::limit(int64_t source_tokens) const {
  if (max_source_factor == 0) return max_length;
  const double by_source = max_source_factor * static_cast<double>(source_tokens) + max_source_extra;
  // A smaller limit than min_length would contradict it.
  return std::max(min_length, by_source < max_length ? static_cast<int>(by_source) : max_length);
}

double length_penalty(LengthPenalty form, double alpha, int64_t length) {
  const auto tokens = static_cast<double>(length);
  return std::pow(form == LengthPenalty::gnmt ? (5 + tokens) / 6 : tokens, alpha);
}

std::vector<NBest> search(Stepper& stepper, const SpecialIds& special,
                          std::span<const int64_t> source_lengths, const SearchOptions& options) {
  const ProfileScope profile("search");
  options.validate();
  Batch batch(special, source_lengths, options);
  while (!batch.done()) {
    const bool moved = batch.advance(stepper.step(batch.ids()));
    if (moved && !batch.done()) stepper.reorder(batch.parents(), batch.rows_of());
  }
  return batch.results();
}

}  // namespace qkv::decode
