#pragma once
// The hypotheses of one request during decoding: the common base of beam search and sampling.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "qkv/search/constraints.h"

namespace qkv::search {

// A continuation: row `row` of the request (0 is the best hypothesis) extended by token `id`.
struct Candidate {
  float total = 0;  // the log-probability of the whole hypothesis
  float log_probability = 0;
  int32_t row = 0;
  int32_t id = 0;
};

// The order of candidates: higher log-probability first, then earlier parent, then lower id.
inline bool better(const Candidate& a, const Candidate& b) {
  if (a.total != b.total) return a.total > b.total;
  return a.row != b.row ? a.row < b.row : a.id < b.id;
}

// A step's result for one row.
struct RowStep {
  std::vector<Candidate> candidates = {};
  std::span<const float> attended = {};  // the attention to each source token, if there is a coverage penalty
  std::vector<TokenProbability> top = {};  // the most likely tokens, if the request asks for them
};

class Hypotheses {
 public:
  // The request must outlive this.
  Hypotheses(const Request& request, const SpecialIds& special)
      : options_(request.options),
        request_(request),
        special_(special),
        limit_(options_.limit(std::ssize(request.source), std::ssize(request.prefix))),
        ends_(options_.stop),
        rows_(1),
        constraints_(constraints_of(options_)) {
    ends_.push_back(special.eos);
  }
  virtual ~Hypotheses() = default;

  struct Row {
    float total = 0;
    int32_t parent = 0;                // its row in the previous step
    int32_t id = 0;                    // the last token
    int32_t node = -1;                 // in the tree; -1 is the empty hypothesis
    int32_t sample = 0;                // the sample's number
    std::vector<float> attended = {};  // total attention per source token, for the coverage penalty
  };
  // The unfinished hypotheses; empty when the request is done.
  const std::vector<Row>& rows() const { return rows_; }
  int length() const { return length_; }  // tokens of the unfinished hypotheses
  const Request& request() const { return request_; }
  const SearchOptions& options() const { return options_; }

  // The next token of the prefix; null once the prefix is complete.
  const int32_t* forced() const;
  void advance_by(int32_t forced_id, std::span<const float> attended);

  // Everything before a row's next token: the start token, or the prompt, and the tokens since.
  std::vector<int32_t> history(int32_t row) const;
  const Constraints& constraints() const { return constraints_; }  // of the options
  // Appends the tokens of a row, in order.
  virtual void append_tokens(int32_t row, std::vector<int32_t>& tokens) const;
  Ids ends() const { return ends_; }  // the end tokens
  bool ends(int32_t id) const { return std::ranges::count(ends_, id) > 0; }

  // The maximum number of candidates of a row that advance() uses.
  virtual size_t wanted() const = 0;
  // Advances by one token, after the prefix. If no row has candidates, all hypotheses end as they are.
  virtual void advance(std::span<const RowStep> steps) = 0;
  // The best hypotheses so far.
  virtual NBest result() const = 0;

 protected:
  Hypotheses(const Hypotheses&) = default;

  struct Finished {
    float score = 0, total = 0;
    int32_t node = -1;   // the last token before the end token
    int32_t end_id = 0;  // the end token
    float end_log_probability = 0;
    bool complete = true;
  };

  // Adds a step's attention to the row's.
  static void attend(Row& row, std::span<const float> attended);
  float score(float total, int length, std::span<const float> attended) const;
  Finished finished(const Row& row, const Candidate& end) const;  // after length_ has counted the end
  Finished truncated(const Row& row) const;                       // before
  // The row that results from extending `parent` by a candidate.
  Row continued(const Row& parent, const Candidate& candidate);
  Hypothesis spell(const Finished& hypothesis) const;
  bool at_limit() const { return length_ + 1 >= limit_; }
  // Calls Request::on_token, except with the end of a model without an end token; returns whether to continue
  // the output.
  bool tell(const NewToken& token) const {
    return !request_.on_token || token.id < 0 || request_.on_token(token);
  }

  const SearchOptions& options_;
  const Request& request_;
  SpecialIds special_;
  int limit_;  // tokens, the prefix and </s> included
  int length_ = 0;
  std::vector<int32_t> ends_;
  std::vector<Row> rows_;
  Constraints constraints_;

 private:
  int32_t add_token(int32_t parent, int32_t id, float log_probability);

  // The tokens as a tree, in which hypotheses share prefixes.
  struct Node {
    int32_t parent = -1;
    int32_t id = 0;
    float log_probability = 0;
  };
  std::vector<Node> nodes_;
};

// The class depends on the request's options. The request must outlive the result.
std::unique_ptr<Hypotheses> make_hypotheses(const Request& request, const SpecialIds& special);

}  // namespace qkv::search
