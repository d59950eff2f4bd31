#pragma once
// The hypotheses of one sentence while it is searched.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/decode/search.h"

namespace qkv::decode {

// A way to continue: row `row` of the sentence (0 is its best hypothesis) with token `id`.
struct Candidate {
  float total = 0;  // the log-probability of the whole hypothesis
  float log_probability = 0;
  int32_t row = 0;
  int32_t id = 0;
};

// The order of candidates: likelier first, then earlier parents, then lower ids.
inline bool better(const Candidate& a, const Candidate& b) {
  if (a.total != b.total) return a.total > b.total;
  return a.row != b.row ? a.row < b.row : a.id < b.id;
}

// Follows transformers' beam search. Of the 2 * beam best candidates, those that end and are among the first
// `beam` become finished hypotheses, and the `beam` best that do not end go on. 2 * beam suffice, as at most
// one candidate of a row can end.
class Beam {
 public:
  // options outlives this. limit: the most tokens, </s> included.
  Beam(const SearchOptions& options, int32_t eos, int limit);

  struct Row {
    float total = 0;
    int32_t parent = 0;  // the row of the step before
    int32_t id = 0;      // the last token
    int32_t node = -1;   // in nodes_; -1 is the empty hypothesis
  };
  // The unfinished hypotheses, best first; empty when the sentence is done.
  const std::vector<Row>& rows() const { return rows_; }
  bool eos_allowed() const { return length_ + 1 >= options_.min_length; }

  // One token more. candidates: the 2 * beam best (or all, where there are fewer), in order.
  void advance(std::span<const Candidate> candidates);
  // The best hypotheses found.
  NBest result() const;

 private:
  // Tokens as a tree: hypotheses share their beginnings.
  struct Node {
    int32_t parent = -1;
    int32_t id = 0;
    float log_probability = 0;
  };
  struct Finished {
    float score = 0, total = 0;
    int32_t node = -1;              // the last token before </s>
    float eos_log_probability = 0;  // of the </s>
    bool complete = true;
  };

  float score(float total, int length) const;
  void finish(const Finished& hypothesis);
  bool can_improve() const;
  Hypothesis spell(const Finished& hypothesis) const;

  const SearchOptions& options_;
  int32_t eos_;
  int limit_;
  int length_ = 0;  // tokens of the unfinished hypotheses
  std::vector<Row> rows_;
  std::vector<Node> nodes_;
  std::vector<Finished> finished_;  // best first, at most `beam`
};

}  // namespace qkv::decode
