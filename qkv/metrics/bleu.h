#pragma once
// Corpus BLEU (Papineni et al. 2002): BP * exp(1/N sum_n log p_n), the brevity penalty times the geometric
// mean of the n-gram precisions. All numbers equal those of sacreBLEU 2.6.

#include <cstdint>
#include <string>
#include <vector>

namespace qkv::metrics {

struct BleuOptions {
  enum class Tokenize {
    mteval_13a,  // sacreBLEU's "13a", the default of published scores
    none,        // pre-tokenized text; split at white space only
  };
  enum class Smooth {
    exp,   // the k-th zero precision counts as 1 / 2^k matches (Chen and Cherry 2014, method 3)
    none,  // a zero precision makes the score zero
  };

  Tokenize tokenize = Tokenize::mteval_13a;
  Smooth smooth = Smooth::exp;
  bool lowercase = false;        // ignore case
  bool effective_order = false;  // average only over n-gram orders that occur in the hypotheses
  int max_order = 4;             // longest n-gram; 1 to 1000
};

struct BleuResult {
  double score = 0;                // in [0, 100]
  std::vector<double> precisions;  // [max_order], smoothed, in [0, 100]; all zero without matches
  double brevity_penalty = 0;      // in [0, 1]
  int64_t hypothesis_length = 0;   // tokens
  int64_t reference_length = 0;    // tokens; per segment, of the reference closest in length
  std::vector<int64_t> counts;     // [max_order] matching n-grams, clipped
  std::vector<int64_t> totals;     // [max_order] n-grams of the hypotheses
  int64_t references = 0;          // per segment
};

// hypotheses[i] is compared with references[i]. Invalid UTF-8 is read as U+FFFD. Throws DataError for an
// empty corpus or unequal numbers of segments, UsageError for a max_order out of range.
BleuResult corpus_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
                       const BleuOptions& options = {});

// Several references per segment: hypotheses[i] is compared with reference_sets[0][i], reference_sets[1][i],
// ...
BleuResult corpus_bleu(const std::vector<std::string>& hypotheses,
                       const std::vector<std::vector<std::string>>& reference_sets,
                       const BleuOptions& options = {});

// The settings of the score: "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:qkv-0.1.0".
std::string signature(const BleuResult& result, const BleuOptions& options);

// The line that `sacrebleu --format text` prints, with `digits` decimals (default in sacreBLEU: 1 in its
// command, 2 in its Python interface):
// "BLEU|nrefs:1|... = 38.21 69.1/45.0/31.2/22.0 (BP = 1.000 ratio = 1.003 hyp_len = 1210 ref_len = 1206)".
std::string format(const BleuResult& result, const BleuOptions& options, int digits = 2);

}  // namespace qkv::metrics
