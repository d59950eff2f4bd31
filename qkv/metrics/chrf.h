#pragma once
// chrF (Popovic 2015) and chrF++ (Popovic 2017) of a corpus: (1 + b^2) P R / (b^2 P + R), where P and R are
// the mean precision and recall of character n-grams (and, for chrF++, word n-grams). Every number equals
// sacreBLEU 2.6's.

#include <cstdint>
#include <string>
#include <vector>

namespace qkv::metrics {

struct ChrfOptions {
  int char_order = 6;       // the longest character n-gram; characters are Unicode code points
  int word_order = 0;       // the longest word n-gram; 2 gives chrF++
  int beta = 2;             // recall weighs beta times as much as precision
  bool lowercase = false;   // compare without regard to case
  bool whitespace = false;  // count white space as characters; by default it is removed
  // By default precision and recall are averaged over the orders that both sides have. True gives the mean
  // over all orders of the F-scores instead, with 1e-16 for a missing one, as chrF++.py, NLTK and Moses
  // compute it.
  bool eps_smoothing = false;
};

struct ChrfResult {
  double score = 0;        // in [0, 100]
  int64_t references = 0;  // per segment
};

// hypotheses[i] is compared with references[i]. Invalid UTF-8 is read as U+FFFD. Throws DataError for an
// empty corpus or unequal numbers of segments, UsageError for a negative order, no order at all, or beta < 1.
ChrfResult corpus_chrf(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
                       const ChrfOptions& options = {});

// Several references per segment: the counts of that reference enter which gives the segment its best
// F-score.
ChrfResult corpus_chrf(const std::vector<std::string>& hypotheses,
                       const std::vector<std::vector<std::string>>& reference_sets,
                       const ChrfOptions& options = {});

// How the score was computed: "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:qkv-0.1.0".
std::string signature(const ChrfResult& result, const ChrfOptions& options);

// The line that `sacrebleu --metrics chrf --format text` prints, the score with `digits` digits after the
// point: "chrF2|nrefs:1|... = 60.12".
std::string format(const ChrfResult& result, const ChrfOptions& options, int digits = 2);

}  // namespace qkv::metrics
