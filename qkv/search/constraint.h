#pragma once
// The interface of a constraint: the tokens that may follow a hypothesis.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "qkv/search/step_model.h"

namespace qkv::search {

// A hypothesis before its next token.
struct StepContext {
  Ids source = {};         // of the encoder, or the prompt
  Ids history = {};        // the start token or the prompt, and all tokens after it
  int64_t new_tokens = 0;  // of the history: those after Request::prefix
  Ids ends = {};           // the end tokens

  Ids output() const { return history.last(static_cast<size_t>(new_tokens)); }
};

// The tokens that may come next: a view of their scores, [vocabulary], where a forbidden token has
// kImpossible. Ids outside the vocabulary are ignored.
class NextTokens {
 public:
  explicit NextTokens(std::span<float> scores) : scores_(scores) {}

  int64_t vocabulary() const { return std::ssize(scores_); }
  // The score of a token of the vocabulary: its logit or log-probability.
  float operator[](int32_t id) const { return score(id); }
  bool allows(int32_t id) const { return contains(id) && score(id) != kImpossible; }
  void forbid(int32_t id) {
    if (contains(id)) score(id) = kImpossible;
  }
  // Forbids all tokens but these. Forbidden ones stay forbidden.
  void allow_only(Ids ids);
  // Allows this token alone, even if it was forbidden. It costs a beam search nothing: its score becomes 0.
  void force(int32_t id);

 private:
  bool contains(int32_t id) const { return id >= 0 && id < vocabulary(); }
  float& score(int32_t id) const { return scores_[static_cast<size_t>(id)]; }

  std::span<float> scores_;
};

// Called once for each hypothesis and token after the prefix, by several threads at once. The result may
// depend on the context alone. An error ends the request. A hypothesis without an allowed token ends as it
// is, so a constraint on complete outputs allows context.ends where the output may end, and nothing else
// where it must.
class Constraint {
 public:
  virtual ~Constraint() = default;
  virtual void apply(const StepContext& context, NextTokens& next) const = 0;
};

using Constraints = std::vector<std::shared_ptr<const Constraint>>;  // in the order of application

}  // namespace qkv::search
