#include "qkv/search/hypotheses.h"

#include <algorithm>
#include <functional>

#include "qkv/search/alternatives.h"
#include "qkv/search/beam.h"
#include "qkv/search/samples.h"

namespace qkv::search {

const int32_t* Hypotheses::forced() const {
  const auto place = static_cast<size_t>(length_);
  return place < request_.prefix.size() ? &request_.prefix[place] : nullptr;
}

void Hypotheses::advance_by(int32_t forced_id, std::span<const float> attended) {
  Row& row = rows_.front();
  attend(row, attended);
  row.id = forced_id;
  row.node = add_token(row.node, forced_id, 0);
  ++length_;
}

std::vector<int32_t> Hypotheses::history(int32_t row) const {
  std::vector<int32_t> tokens;
  if (special_.start) {
    tokens.push_back(request_.start.value_or(*special_.start));
  } else {
    tokens = request_.source;
  }
  append_tokens(row, tokens);
  return tokens;
}

void Hypotheses::append_tokens(int32_t row, std::vector<int32_t>& tokens) const {
  const auto before = static_cast<std::ptrdiff_t>(tokens.size());
  int32_t node = rows_[static_cast<size_t>(row)].node;
  for (; node >= 0; node = nodes_[static_cast<size_t>(node)].parent)
    tokens.push_back(nodes_[static_cast<size_t>(node)].id);
  std::reverse(tokens.begin() + before, tokens.end());
}

void Hypotheses::attend(Row& row, std::span<const float> attended) {
  row.attended.resize(attended.size());
  std::ranges::transform(row.attended, attended, row.attended.begin(), std::plus());
}

// In single precision, as transformers compute scores.
float Hypotheses::score(float total, int length, std::span<const float> attended) const {
  const int64_t found = length - std::ssize(request_.prefix);
  const float score = total / static_cast<float>(length_penalty(options_.length_penalty_type,
                                                                options_.length_penalty, found));
  return score + static_cast<float>(coverage_penalty(options_.coverage_penalty, attended));
}

Hypotheses::Finished Hypotheses::finished(const Row& row, const Candidate& end) const {
  return {.score = score(end.total, length_, row.attended),
          .total = end.total,
          .node = row.node,
          .end_id = end.id,
          .end_log_probability = end.log_probability,
          .complete = true};
}

Hypotheses::Finished Hypotheses::truncated(const Row& row) const {
  return {.score = score(row.total, length_ + (options_.forced_eos ? 1 : 0), row.attended),
          .total = row.total,
          .node = row.node,
          .end_id = special_.eos,
          .end_log_probability = 0,
          .complete = false};
}

Hypotheses::Row Hypotheses::continued(const Row& parent, const Candidate& candidate) {
  return {.total = candidate.total,
          .parent = candidate.row,
          .id = candidate.id,
          .node = add_token(parent.node, candidate.id, candidate.log_probability),
          .sample = parent.sample,
          .attended = parent.attended};
}

int32_t Hypotheses::add_token(int32_t parent, int32_t id, float log_probability) {
  nodes_.push_back({parent, id, log_probability});
  return static_cast<int32_t>(nodes_.size()) - 1;
}

Hypothesis Hypotheses::spell(const Finished& hypothesis) const {
  Hypothesis result{.ids = {hypothesis.end_id},
                    .score = hypothesis.score,
                    .log_probability = hypothesis.total,
                    .token_log_probabilities = {hypothesis.end_log_probability},
                    .complete = hypothesis.complete};
  for (int32_t node = hypothesis.node; node >= 0; node = nodes_[static_cast<size_t>(node)].parent) {
    result.ids.push_back(nodes_[static_cast<size_t>(node)].id);
    result.token_log_probabilities.push_back(nodes_[static_cast<size_t>(node)].log_probability);
  }
  std::reverse(result.ids.begin(), result.ids.end());
  std::reverse(result.token_log_probabilities.begin(), result.token_log_probabilities.end());
  return result;
}

std::unique_ptr<Hypotheses> make_hypotheses(const Request& request, const SpecialIds& special) {
  if (request.options.sampling) return std::make_unique<Samples>(request, special);
  if (request.options.alternatives) return std::make_unique<Alternatives>(request, special);
  return std::make_unique<Beam>(request, special);
}

}  // namespace qkv::search
