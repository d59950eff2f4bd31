#pragma once
// Corpus chrF (Popovic 2015) and chrF++ (Popovic 2017): (1 + b^2) P R / (b^2 P + R), where P and R are the
// mean precision and recall of character n-grams (and, for chrF++, word n-grams). All numbers equal those of
// sacreBLEU 2.6.

#include <cstdint>
#include <string>
#include <vector>

namespace qkv::metrics {

struct ChrfOptions {
  int char_order = 6;       // longest character n-gram, in Unicode code points
  int word_order = 0;       // longest word n-gram; 2 gives chrF++
  int beta = 2;             // weight of recall relative to precision
  bool lowercase = false;   // ignore case
  bool whitespace = false;  // count white space as characters instead of removing it
  // False: averages precision and recall over the orders that both sides have. True: averages the F-scores
  // over all orders, with 1e-16 for a missing one, as chrF++.py, NLTK and Moses do.
  bool eps_smoothing = false;
};

struct ChrfResult {
  double score = 0;        // in [0, 100]
  int64_t references = 0;  // per segment
};

// Compares hypotheses[i] with references[i]. Invalid UTF-8 is read as U+FFFD. Throws DataError for an empty
// corpus or unequal numbers of segments, UsageError for an order outside 0 to 1000, both orders 0, or beta
// < 1.
ChrfResult corpus_chrf(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
                       const ChrfOptions& options = {});

// Several references per segment: only the reference with the segment's best F-score is counted.
ChrfResult corpus_chrf(const std::vector<std::string>& hypotheses,
                       const std::vector<std::vector<std::string>>& reference_sets,
                       const ChrfOptions& options = {});

// The settings of the score: "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:qkv-0.1.0".
std::string signature(const ChrfResult& result, const ChrfOptions& options);

// The line that `sacrebleu --metrics chrf --format text` prints, with `digits` decimals:
// "chrF2|nrefs:1|... = 60.12".
std::string format(const ChrfResult& result, const ChrfOptions& options, int digits = 2);

}  // namespace qkv::metrics
