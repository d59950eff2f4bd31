#pragma once
// Constraints of outputs that transcribe audio.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "qkv/models/speech_model.h"
#include "qkv/search/constraint.h"

namespace qkv::pipelines {

// Timestamps come first, and in pairs between segments, do not decrease, and come whenever all of them
// together are more likely than any other token (Radford et al. 2022, section 4.5; transformers'
// WhisperTimeStampLogitsProcessor).
class TimestampRules : public search::Constraint {
 public:
  // max_first: SpeechModel::max_first_timestamp.
  TimestampRules(const models::SpeechTokens& tokens, std::optional<int32_t> max_first)
      : tokens_(tokens), max_first_(max_first) {}
  void apply(const search::StepContext& context, search::NextTokens& next) const override;

 private:
  models::SpeechTokens tokens_;
  std::optional<int32_t> max_first_;
};

// Allows languages alone, and notes their probabilities among them. For one request of one token.
class LanguageChoice : public search::Constraint {
 public:
  explicit LanguageChoice(const models::SpeechTokens& tokens) : tokens_(tokens) {}
  void apply(const search::StepContext& context, search::NextTokens& next) const override;

  // In the order of SpeechTokens::languages; empty before the request has run.
  const std::vector<float>& probabilities() const { return probabilities_; }

 private:
  models::SpeechTokens tokens_;
  mutable std::vector<float> probabilities_;
};

}  // namespace qkv::pipelines
