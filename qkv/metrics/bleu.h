#pragma once
// BLEU (Papineni et al., 2002) of a corpus: BP * exp(1/N sum_n log p_n), the brevity penalty times the
// geometric mean of the n-gram precisions. Every number equals sacreBLEU 2.6's.

#include <cstdint>
#include <string>
#include <vector>

namespace qkv::metrics {

struct BleuOptions {
  enum class Tokenize {
    mteval_13a,  // sacreBLEU's "13a", the default of published scores
    none,        // the text is tokenized already; split at white space only
  };
  enum class Smooth {
    exp,   // the k-th precision without a match counts as 1 / 2^k matches (Chen and Cherry 2014, method 3)
    none,  // a precision of zero makes the score zero
  };

  Tokenize tokenize = Tokenize::mteval_13a;
  Smooth smooth = Smooth::exp;
  bool lowercase = false;        // compare without regard to case
  bool effective_order = false;  // average only over orders that the hypotheses are long enough to have
  int max_order = 4;             // the longest n-gram; at least 1
};

struct BleuResult {
  double score = 0;                // in [0, 100]
  std::vector<double> precisions;  // [max_order], smoothed, in [0, 100]; all zero where nothing matched
  double brevity_penalty = 0;      // in [0, 1]
  int64_t hypothesis_length = 0;   // tokens
  int64_t reference_length = 0;    // tokens; of each segment's references, the one nearest in length
  std::vector<int64_t> counts;     // [max_order] n-grams that match, clipped
  std::vector<int64_t> totals;     // [max_order] n-grams of the hypotheses
  int64_t references = 0;          // per segment
};

// hypotheses[i] is compared with references[i]. Invalid UTF-8 is read as U+FFFD. Throws DataError for an
// empty corpus or unequal numbers of segments, UsageError for max_order < 1.
BleuResult corpus_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
                       const BleuOptions& options = {});

// Several references per segment: hypotheses[i] is compared with reference_sets[0][i], reference_sets[1][i],
// ...
BleuResult corpus_bleu(const std::vector<std::string>& hypotheses,
                       const std::vector<std::vector<std::string>>& reference_sets,
                       const BleuOptions& options = {});

// How the score was computed: "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:qkv-0.1.0".
std::string signature(const BleuResult& result, const BleuOptions& options);

// The line that `sacrebleu --format text` prints, the score with `digits` digits after the point (1 in its
// command, 2 in its Python interface by default), as in
// "BLEU|nrefs:1|... = 38.21 69.1/45.0/31.2/22.0 (BP = 1.000 ratio = 1.003 hyp_len = 1210 ref_len = 1206)".
std::string format(const BleuResult& result, const BleuOptions& options, int digits = 2);

}  // namespace qkv::metrics
