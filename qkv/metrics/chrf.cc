#include "qkv/metrics/chrf.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/metrics/ngrams.h"
#include "qkv/metrics/unicode.h"

namespace qkv::metrics {
namespace {

// N-gram counts of one order: of the hypotheses (if the reference has any), of the references, and matching.
struct Matches {
  int64_t hypothesis = 0, reference = 0, both = 0;
};

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// Words for chrF++: one punctuation mark is split off the end of a word or, if there is none, off its
// beginning, so "(hi)" becomes "(hi" and ")", as in the original chrF++ program.
std::vector<std::u32string_view> words_of(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  for (const std::u32string_view word : split_whitespace(text)) {
    const size_t cut =
        is_ascii_punctuation(word.back()) ? word.size() - 1 : is_ascii_punctuation(word.front());
    if (cut > 0) words.push_back(word.substr(0, cut));
    words.push_back(word.substr(cut));
  }
  return words;
}

// The n-grams of a segment: character orders 1, 2, ... and then word orders 1, 2, ...
class Segment {
 public:
  Segment(const std::string& bytes, const ChrfOptions& options, WordNumbers& numbers) {
    std::u32string text = decode_utf8(bytes);
    if (options.lowercase) text = lowercase(text);
    if (options.word_order > 0) words_ = numbers.number(words_of(text));
    if (!options.whitespace) std::erase_if(text, is_space);
    characters_ = std::move(text);
    for (int n = 1; n <= options.char_order; ++n) ngrams_.push_back(count_ngrams(characters_, n));
    for (int n = 1; n <= options.word_order; ++n) ngrams_.push_back(count_ngrams(words_, n));
  }
  Segment(const Segment&) = delete;  // ngrams_ holds views into the strings
  Segment& operator=(const Segment&) = delete;

  const std::vector<NgramCounts>& ngrams() const { return ngrams_; }

 private:
  std::u32string characters_, words_;
  std::vector<NgramCounts> ngrams_;
};

std::vector<Matches> match(const Segment& hypothesis, const Segment& reference) {
  std::vector<Matches> matches(hypothesis.ngrams().size());
  for (size_t order = 0; order < matches.size(); ++order) {
    const NgramCounts& expected = reference.ngrams()[order];
    Matches& m = matches[order];
    for (const auto& [ngram, count] : hypothesis.ngrams()[order]) {
      m.hypothesis += count;
      const auto found = expected.find(ngram);
      if (found != expected.end()) m.both += std::min(count, found->second);
    }
    if (expected.empty()) m.hypothesis = 0;
    for (const auto& [ngram, count] : expected) m.reference += count;
  }
  return matches;
}

double f_score(const std::vector<Matches>& matches, const ChrfOptions& options) {
  constexpr double kEpsilon = 1e-16;
  const double factor = static_cast<double>(options.beta) * options.beta;
  double sum_of_scores = 0, precision = 0, recall = 0;
  int effective_orders = 0;
  for (const Matches& m : matches) {
    const double both = static_cast<double>(m.both);
    const double p = m.hypothesis > 0 ? both / static_cast<double>(m.hypothesis) : kEpsilon;
    const double r = m.reference > 0 ? both / static_cast<double>(m.reference) : kEpsilon;
    const double denominator = factor * p + r;
    sum_of_scores += denominator > 0 ? (1 + factor) * p * r / denominator : kEpsilon;
    if (m.hypothesis > 0 && m.reference > 0) {
      precision += p;
      recall += r;
      ++effective_orders;
    }
  }
  if (options.eps_smoothing) return 100 * sum_of_scores / static_cast<double>(matches.size());
  if (effective_orders == 0 || precision + recall == 0) return 0;
  precision /= effective_orders;
  recall /= effective_orders;
  return 100 * (1 + factor) * precision * recall / (factor * precision + recall);
}

void check(const ChrfOptions& options) {
  const auto outside = [](int order) { return order < 0 || order > kMaxOrder; };
  if (outside(options.char_order) || outside(options.word_order) ||
      options.char_order + options.word_order == 0) {
    throw UsageError(concat("chrF: expected orders from 0 to ", kMaxOrder,
                            ", one of them above 0, found char_order ", options.char_order,
                            " and word_order ", options.word_order));
  }
  if (options.beta < 1) throw UsageError(concat("chrF: expected a beta of at least 1, found ", options.beta));
}

}  // namespace

ChrfResult corpus_chrf(const std::vector<std::string>& hypotheses,
                       const std::vector<std::vector<std::string>>& reference_sets,
                       const ChrfOptions& options) {
  check_corpus("chrF", hypotheses, reference_sets);
  check(options);
  std::vector<Matches> total(static_cast<size_t>(options.char_order + options.word_order));
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    WordNumbers numbers;
    const Segment hypothesis(hypotheses[i], options, numbers);
    std::vector<Matches> best;
    double best_score = -1;
    for (const std::vector<std::string>& references : reference_sets) {
      std::vector<Matches> matches = match(hypothesis, Segment(references[i], options, numbers));
      const double score = f_score(matches, options);
      if (score > best_score) {
        best_score = score;
        best = std::move(matches);
      }
    }
    for (size_t order = 0; order < total.size(); ++order) {
      total[order].hypothesis += best[order].hypothesis;
      total[order].reference += best[order].reference;
      total[order].both += best[order].both;
    }
  }
  return {.score = f_score(total, options), .references = static_cast<int64_t>(reference_sets.size())};
}

ChrfResult corpus_chrf(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
                       const ChrfOptions& options) {
  return corpus_chrf(hypotheses, std::vector<std::vector<std::string>>{references}, options);
}

std::string signature(const ChrfResult& result, const ChrfOptions& options) {
  return concat("nrefs:", result.references, "|case:", options.lowercase ? "lc" : "mixed",
                "|eff:", options.eps_smoothing ? "no" : "yes", "|nc:", options.char_order,
                "|nw:", options.word_order, "|space:", options.whitespace ? "yes" : "no",
                "|version:", kSignatureVersion);
}

std::string format(const ChrfResult& result, const ChrfOptions& options, int digits) {
  check(options);
  return concat("chrF", options.beta, std::string(static_cast<size_t>(options.word_order), '+'), "|",
                signature(result, options), " = ", fixed(result.score, digits));
}

}  // namespace qkv::metrics
