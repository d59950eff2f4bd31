#include "qkv/metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/metrics/ngrams.h"
#include "qkv/metrics/tokenize_13a.h"
#include "qkv/metrics/unicode.h"

namespace qkv::metrics {
namespace {

// The segment's words, numbered.
std::u32string read_segment(const std::string& segment, const BleuOptions& options, WordNumbers& numbers) {
  std::u32string text = decode_utf8(segment);
  if (options.lowercase) text = lowercase(text);
  text.resize(strip_right(text).size());
  if (options.tokenize == BleuOptions::Tokenize::mteval_13a) text = separate_13a(text);
  return numbers.number(split_whitespace(text));
}

// The reference length closest to the hypothesis length; the shorter one of a tie.
size_t nearest_length(size_t length, const std::vector<std::u32string>& references) {
  const auto distance = [&](size_t other) { return other > length ? other - length : length - other; };
  size_t best = references.front().size();
  for (const std::u32string& reference : references) {
    const size_t size = reference.size();
    if (distance(size) < distance(best) || (distance(size) == distance(best) && size < best)) best = size;
  }
  return best;
}

// Adds the segment's n-grams to the totals, and the matching ones to the counts, clipped at the maximum count
// in any reference.
void add_segment(const std::u32string& hypothesis, const std::vector<std::u32string>& references,
                 BleuResult& result) {
  result.hypothesis_length += static_cast<int64_t>(hypothesis.size());
  result.reference_length += static_cast<int64_t>(nearest_length(hypothesis.size(), references));
  for (size_t order = 0; order < result.counts.size(); ++order) {
    const int n = static_cast<int>(order) + 1;
    NgramCounts allowed;
    for (const std::u32string& reference : references) {
      for (const auto& [ngram, count] : count_ngrams(reference, n)) {
        int64_t& most = allowed[ngram];
        most = std::max(most, count);
      }
    }
    for (const auto& [ngram, count] : count_ngrams(hypothesis, n)) {
      result.totals[order] += count;
      const auto found = allowed.find(ngram);
      if (found != allowed.end()) result.counts[order] += std::min(count, found->second);
    }
  }
}

// Fills precisions, brevity penalty and score from the counts and lengths.
void compute_score(const BleuOptions& options, BleuResult& result) {
  const double hypothesis_length = static_cast<double>(result.hypothesis_length);
  const double reference_length = static_cast<double>(result.reference_length);
  result.brevity_penalty = 1;
  if (hypothesis_length < reference_length) {
    result.brevity_penalty = hypothesis_length > 0 ? std::exp(1 - reference_length / hypothesis_length) : 0;
  }
  const size_t orders = result.counts.size();
  result.precisions.assign(orders, 0);
  if (std::all_of(result.counts.begin(), result.counts.end(), [](int64_t count) { return count == 0; }))
    return;

  double smoothing = 1;
  size_t effective_order = orders;
  for (size_t n = 0; n < orders && result.totals[n] > 0; ++n) {
    if (options.effective_order) effective_order = n + 1;
    const double total = static_cast<double>(result.totals[n]);
    if (result.counts[n] > 0) {
      result.precisions[n] = 100. * static_cast<double>(result.counts[n]) / total;
    } else if (options.smooth == BleuOptions::Smooth::exp) {
      smoothing *= 2;
      result.precisions[n] = 100. / (smoothing * total);
    }
  }
  double sum_of_logs = 0;  // log 0 = -inf makes the score 0
  for (size_t n = 0; n < effective_order; ++n) sum_of_logs += std::log(result.precisions[n]);
  result.score = result.brevity_penalty * std::exp(sum_of_logs / static_cast<double>(effective_order));
}

}  // namespace

BleuResult corpus_bleu(const std::vector<std::string>& hypotheses,
                       const std::vector<std::vector<std::string>>& reference_sets,
                       const BleuOptions& options) {
  check_corpus("BLEU", hypotheses, reference_sets);
  if (options.max_order < 1 || options.max_order > kMaxOrder) {
    throw UsageError(
        concat("BLEU: expected a max_order from 1 to ", kMaxOrder, ", found ", options.max_order));
  }
  BleuResult result;
  result.counts.assign(static_cast<size_t>(options.max_order), 0);
  result.totals = result.counts;
  result.references = static_cast<int64_t>(reference_sets.size());
  std::vector<std::u32string> references(reference_sets.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    WordNumbers numbers;
    for (size_t set = 0; set < references.size(); ++set) {
      references[set] = read_segment(reference_sets[set][i], options, numbers);
    }
    add_segment(read_segment(hypotheses[i], options, numbers), references, result);
  }
  compute_score(options, result);
  return result;
}

BleuResult corpus_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
                       const BleuOptions& options) {
  return corpus_bleu(hypotheses, std::vector<std::vector<std::string>>{references}, options);
}

std::string signature(const BleuResult& result, const BleuOptions& options) {
  return concat("nrefs:", result.references, "|case:", options.lowercase ? "lc" : "mixed",
                "|eff:", options.effective_order ? "yes" : "no",
                "|tok:", options.tokenize == BleuOptions::Tokenize::mteval_13a ? "13a" : "none",
                "|smooth:", options.smooth == BleuOptions::Smooth::exp ? "exp" : "none",
                "|version:", kSignatureVersion);
}

std::string format(const BleuResult& result, const BleuOptions& options, int digits) {
  std::string precisions;
  for (const double precision : result.precisions) {
    if (!precisions.empty()) precisions += '/';
    precisions += fixed(precision, 1);
  }
  const double ratio = result.reference_length == 0 ? 0
                                                    : static_cast<double>(result.hypothesis_length) /
                                                          static_cast<double>(result.reference_length);
  return concat("BLEU|", signature(result, options), " = ", fixed(result.score, digits), " ", precisions,
                " (BP = ", fixed(result.brevity_penalty, 3), " ratio = ", fixed(ratio, 3),
                " hyp_len = ", result.hypothesis_length, " ref_len = ", result.reference_length, ")");
}

}  // namespace qkv::metrics
