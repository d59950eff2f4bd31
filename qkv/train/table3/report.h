#pragma once
// Summarises a reproduction of the paper's Table 3: means over seeds, confidence intervals, and whether the
// rows are in the paper's order.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qkv/train/table3/reproduce.h"

namespace qkv::train {

// Whether a row is on the same side of base as in the paper.
struct Table3Order {
  double difference = 0;             // from base, of the means
  std::optional<double> half_width;  // of its 95 % interval
  bool equal_in_paper = false;       // then nothing can be said
  bool agrees = false;
  // The interval has values on both sides: the runs do not decide the order.
  bool open() const { return half_width && std::abs(difference) <= *half_width; }
};

// One metric of a row. The intervals are those of Student's t for a mean, from the variance of seeds within
// rows, which is taken to be equal in all rows and pooled: two seeds alone would give twelve times wider
// ones.
struct Table3Metric {
  double mean = 0;
  std::optional<double> half_width;  // of the 95 % interval; nothing with one seed per row
  std::optional<Table3Order> order;  // nothing for base, and without base
};

struct Table3ReportRow {
  Table3Row row;
  int64_t parameters = 0;
  std::vector<Table3Run> runs;  // with a result
  // Runs that diverged: whose loss is not finite, or above that of a uniform guess over the vocabulary's full
  // size. They are left out of means and intervals.
  std::vector<Table3Run> diverged;
  int64_t failures = 0;  // how many
  // Nothing without a run that has a result.
  std::optional<Table3Metric> loss;  // natural logarithm of the perplexity
  std::optional<Table3Metric> bleu;

  // The geometric mean over seeds, and the larger distance to an end of its interval.
  double perplexity() const;
  std::optional<double> perplexity_half_width() const;
};

// The order of a metric over all rows.
struct Table3Agreement {
  int64_t rows = 0, agreeing = 0;         // compared with base, of those that differ from it in the paper
  std::vector<std::string> disagreeing;   // the others
  int64_t pairs = 0, agreeing_pairs = 0;  // of any two rows that differ in the paper
};

struct Table3Report {
  Table3Options options;
  std::vector<Table3ReportRow> rows;
  int64_t runs = 0, planned = 0;
  bool finished = false;
  Table3Agreement perplexity, bleu;
};

Table3Report summarise(const Table3Results& results);

// What a row's model has at this scale: all sizes for base, else those that differ from base ("h 4, d_k 16,
// d_v 16").
std::string table3_changes(const Table3Row& row, int64_t scale);

// A heading and a line per row: name, sizes, parameters, perplexity and BLEU, those of the paper, and the
// order.
std::vector<std::vector<std::string>> table3_cells(const Table3Report& report);

// "Perplexity: 12 of 17 rows are on the paper's side of base ...", a sentence each.
std::vector<std::string> table3_conclusions(const Table3Report& report);

// The table and the conclusions in Markdown; the numbers of each run as tab-separated values; a drawing of
// the differences from base, here and in the paper. Functions of the results: times do not occur.
std::string table3_markdown(const Table3Report& report);
std::string table3_tsv(const Table3Report& report);
std::string table3_svg(const Table3Report& report);

}  // namespace qkv::train
