#pragma once
// The hypotheses of one request while it is decoded: what beam search and sampling have in common.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "qkv/search/search.h"

namespace qkv::search {

// A continuation: row `row` of the request (0 is its best hypothesis) with token `id`.
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

// The result of a step for one row.
struct RowStep {
  std::vector<Candidate> candidates = {};
  std::span<const float> attended = {};  // the weight of each source token, where a coverage penalty asks
};

class Hypotheses {
 public:
  // The request must outlive this.
  Hypotheses(const Request& request, const SpecialIds& special)
      : options_(request.options),
        request_(request),
        special_(special),
        limit_(options_.limit(std::ssize(request.source), std::ssize(request.prefix))),
        rows_(1) {}
  virtual ~Hypotheses() = default;

  struct Row {
    float total = 0;
    int32_t parent = 0;                // the row of the step before
    int32_t id = 0;                    // the last token
    int32_t node = -1;                 // in the tree; -1 is the empty hypothesis
    int32_t sample = 0;                // its number, of several
    std::vector<float> attended = {};  // to each source token so far, where a coverage penalty asks
  };
  // The unfinished hypotheses; empty when the request is done.
  const std::vector<Row>& rows() const { return rows_; }
  int length() const { return length_; }  // tokens of the unfinished hypotheses
  const Request& request() const { return request_; }
  const SearchOptions& options() const { return options_; }

  // The next token of the prefix; null after its last.
  const int32_t* forced() const;
  void advance_by(int32_t forced_id, std::span<const float> attended);

  // All that precedes a row's next token: the start token, or the prompt, and the tokens since.
  std::vector<int32_t> history(int32_t row) const;
  // Appends the tokens of a row, the first first.
  virtual void append_tokens(int32_t row, std::vector<int32_t>& tokens) const;
  bool ends(int32_t id) const;

  // The most candidates of a row that advance() can use.
  virtual size_t wanted() const = 0;
  // Advances by a token, after the prefix. Where no row has candidates, no hypothesis can be continued, and
  // all end as they are.
  virtual void advance(std::span<const RowStep> steps) = 0;
  // The best hypotheses found.
  virtual NBest result() const = 0;

 protected:
  Hypotheses(const Hypotheses&) = default;

  struct Finished {
    float score = 0, total = 0;
    int32_t node = -1;   // the last token before the one that ends it
    int32_t end_id = 0;  // that
    float end_log_probability = 0;
    bool complete = true;
  };

  // Adds what a row attended to in a step.
  static void attend(Row& row, std::span<const float> attended);
  float score(float total, int length, std::span<const float> attended) const;
  Finished finished(const Row& row, const Candidate& end) const;  // after length_ has counted the end
  Finished truncated(const Row& row) const;                       // before
  // The row that `parent` becomes with a token.
  Row continued(const Row& parent, const Candidate& candidate);
  Hypothesis spell(const Finished& hypothesis) const;
  bool at_limit() const { return length_ + 1 >= limit_; }
  // Calls Request::on_token; whether the output is to be continued.
  bool tell(const NewToken& token) const { return !request_.on_token || request_.on_token(token); }

  const SearchOptions& options_;
  const Request& request_;
  SpecialIds special_;
  int limit_;  // tokens, the prefix and </s> included
  int length_ = 0;
  std::vector<Row> rows_;

 private:
  int32_t add_token(int32_t parent, int32_t id, float log_probability);

  // Tokens as a tree: hypotheses share their beginnings.
  struct Node {
    int32_t parent = -1;
    int32_t id = 0;
    float log_probability = 0;
  };
  std::vector<Node> nodes_;
};

// Of the class that the request's options ask for. The request must outlive them.
std::unique_ptr<Hypotheses> make_hypotheses(const Request& request, const SpecialIds& special);

}  // namespace qkv::search
