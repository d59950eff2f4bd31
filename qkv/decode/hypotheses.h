#pragma once
// The hypotheses of one sentence while it is decoded: what beam search and sampling have in common.

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

class Hypotheses {
 public:
  // options and request outlive this. limit: the most tokens, the prefix and </s> included.
  Hypotheses(const SearchOptions& options, const Request& request, int32_t eos, int limit)
      : options_(options), request_(request), eos_(eos), limit_(limit), rows_(1) {}
  virtual ~Hypotheses() = default;

  struct Row {
    float total = 0;
    int32_t parent = 0;  // the row of the step before
    int32_t id = 0;      // the last token
    int32_t node = -1;   // in the tree; -1 is the empty hypothesis
    int32_t sample = 0;  // where hypotheses are drawn: which of them this is
  };
  // The unfinished hypotheses; empty when the sentence is done.
  const std::vector<Row>& rows() const { return rows_; }
  int length() const { return length_; }  // tokens of the unfinished hypotheses
  const Request& request() const { return request_; }

  // The next token of a prefix that is not through yet.
  const int32_t* forced() const;
  void advance_by(int32_t forced_id);

  // The tokens of a row, from the first on, behind what `tokens` has.
  void append_tokens(const Row& row, std::vector<int32_t>& tokens) const;
  bool ends(int32_t id) const;

  // How many candidates of a row advance() can have use for.
  virtual size_t wanted() const = 0;
  // One token more. Without candidates, no hypothesis can go on, and all end as they are.
  virtual void advance(std::span<const Candidate> candidates) = 0;
  // The best hypotheses found.
  virtual NBest result() const = 0;

 protected:
  struct Finished {
    float score = 0, total = 0;
    int32_t node = -1;   // the last token before the one that ends it
    int32_t end_id = 0;  // that
    float end_log_probability = 0;
    bool complete = true;
  };

  float score(float total, int length) const;
  Finished finished(const Row& row, const Candidate& end) const;  // length() counts the end
  Finished cut_off(const Row& row) const;                         // length() does not count it
  int32_t add_token(int32_t parent, int32_t id, float log_probability);
  Hypothesis spell(const Finished& hypothesis) const;
  bool at_limit() const { return length_ + 1 >= limit_; }

  const SearchOptions& options_;
  const Request& request_;
  int32_t eos_;
  int limit_;
  int length_ = 0;
  std::vector<Row> rows_;

 private:
  // Tokens as a tree: hypotheses share their beginnings.
  struct Node {
    int32_t parent = -1;
    int32_t id = 0;
    float log_probability = 0;
  };
  std::vector<Node> nodes_;
};

}  // namespace qkv::decode
