#pragma once
// The hypotheses of one sentence while it is decoded: what beam search and sampling have in common.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "qkv/search/search.h"

namespace qkv::search {

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

// What a step says of one row.
struct RowStep {
  std::vector<Candidate> candidates = {};
  std::span<const float> attended = {};  // the weight of each source token, where a coverage penalty asks
};

class Hypotheses {
 public:
  // options and request outlive this. limit: the most tokens, the prefix and </s> included.
  Hypotheses(const SearchOptions& options, const Request& request, const SpecialIds& special, int limit)
      : options_(options), request_(request), special_(special), limit_(limit), rows_(1) {}
  virtual ~Hypotheses() = default;

  struct Row {
    float total = 0;
    int32_t parent = 0;                // the row of the step before
    int32_t id = 0;                    // the last token
    int32_t node = -1;                 // in the tree; -1 is the empty hypothesis
    int32_t sample = 0;                // of several that are drawn: which
    std::vector<float> attended = {};  // to each source token so far, where a coverage penalty asks
  };
  // The unfinished hypotheses; empty when the sentence is done.
  const std::vector<Row>& rows() const { return rows_; }
  int length() const { return length_; }  // tokens of the unfinished hypotheses
  const Request& request() const { return request_; }
  const SearchOptions& options() const { return options_; }

  // The next token of a prefix that is not through yet.
  const int32_t* forced() const;
  void advance_by(int32_t forced_id, std::span<const float> attended);

  // All that a row's next token comes after: the start token, or the source where that goes on, and the
  // tokens since.
  std::vector<int32_t> history(int32_t row) const;
  // The tokens of a row, from the first on, behind what `tokens` has.
  virtual void append_tokens(int32_t row, std::vector<int32_t>& tokens) const;
  bool ends(int32_t id) const;

  // How many candidates of a row advance() can have use for.
  virtual size_t wanted() const = 0;
  // One token more, for rows without a prefix to follow. Without candidates of any row, no hypothesis can go
  // on, and all end as they are.
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

  // A row that has attended once more.
  static void attend(Row& row, std::span<const float> attended);
  float score(float total, int length, std::span<const float> attended) const;
  Finished finished(const Row& row, const Candidate& end) const;  // length() counts the end
  Finished truncated(const Row& row) const;                       // length() does not count it
  // The row that `parent` becomes with a token.
  Row continued(const Row& parent, const Candidate& candidate);
  Hypothesis spell(const Finished& hypothesis) const;
  bool at_limit() const { return length_ + 1 >= limit_; }
  // Tells Request::on_token. Whether the output shall go on.
  bool tell(const NewToken& token) const { return !request_.on_token || request_.on_token(token); }

  const SearchOptions& options_;
  const Request& request_;
  SpecialIds special_;
  int limit_;
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

// The kind that the options ask for. limit: as Hypotheses has it.
std::unique_ptr<Hypotheses> make_hypotheses(const SearchOptions& options, const Request& request,
                                            const SpecialIds& special, int limit);

}  // namespace qkv::search
