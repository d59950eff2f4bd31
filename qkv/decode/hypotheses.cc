#include "qkv/decode/hypotheses.h"

#include <algorithm>

namespace qkv::decode {

const int32_t* Hypotheses::forced() const {
  const auto place = static_cast<size_t>(length_);
  return place < request_.prefix.size() ? &request_.prefix[place] : nullptr;
}

void Hypotheses::advance_by(int32_t forced_id) {
  Row& row = rows_.front();
  row = {.total = 0, .parent = 0, .id = forced_id, .node = add_token(row.node, forced_id, 0), .sample = 0};
  ++length_;
}

void Hypotheses::append_tokens(const Row& row, std::vector<int32_t>& tokens) const {
  const auto before = static_cast<std::ptrdiff_t>(tokens.size());
  for (int32_t node = row.node; node >= 0; node = nodes_[static_cast<size_t>(node)].parent)
    tokens.push_back(nodes_[static_cast<size_t>(node)].id);
  std::reverse(tokens.begin() + before, tokens.end());
}

bool Hypotheses::ends(int32_t id) const { return id == eos_ || std::ranges::count(options_.stop, id) > 0; }

// In single precision, because transformers' scores are.
float Hypotheses::score(float total, int length) const {
  const int64_t found = length - static_cast<int64_t>(request_.prefix.size());
  return total / static_cast<float>(length_penalty(options_.form, options_.length_penalty, found));
}

Hypotheses::Finished Hypotheses::finished(const Row& row, const Candidate& end) const {
  return {.score = score(end.total, length_),
          .total = end.total,
          .node = row.node,
          .end_id = end.id,
          .end_log_probability = end.log_probability,
          .complete = true};
}

Hypotheses::Finished Hypotheses::cut_off(const Row& row) const {
  return {.score = score(row.total, length_ + 1),
          .total = row.total,
          .node = row.node,
          .end_id = eos_,
          .end_log_probability = 0,
          .complete = false};
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

}  // namespace qkv::decode
