#pragma once
// Scores of masked language modelling and next-sentence prediction on held-out documents.

#include <optional>

#include "qkv/data/masking.h"
#include "qkv/models/text_encoder.h"
#include "qkv/train/task.h"

namespace qkv::train {

struct PretrainingScores {
  int64_t masked = 0, pairs = 0;  // predictions
  double masked_loss = 0;         // the mean of -log p[token] (natural logarithm)
  double masked_accuracy = 0;     // share of masked tokens whose prediction is right
  // The same of next-sentence prediction; 0 without pairs.
  double nsp_loss = 0, nsp_accuracy = 0;

  double loss() const { return masked_loss + nsp_loss; }
};

// Segments and masks are the same in every evaluation, whatever the seed of the training. Nothing if the
// request's stop was set before the end. Throws UsageError if the model lacks a head.
std::optional<PretrainingScores> evaluate_pretraining(
    const models::TextEncoder& model, const data::SentenceDocuments& documents,
    const data::SegmentOptions& segments, const data::MaskingVocabulary& vocabulary,
    const data::MaskingOptions& masking, int64_t batch_tokens, const EvaluationRequest& request = {});

}  // namespace qkv::train
