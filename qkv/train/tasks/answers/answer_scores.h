#pragma once
// The answers of a model to questions, and their metrics.

#include <map>
#include <optional>
#include <string>

#include "qkv/models/text_encoder.h"
#include "qkv/train/task.h"
#include "qkv/train/tasks/answers/answer_rows.h"

namespace qkv::train {

// Of questions of one kind.
struct AnswerTotals {
  int64_t questions = 0;
  double exact = 0, f1 = 0;  // sums

  std::map<std::string, double> means() const;  // "exact_match" and "f1", in 0 to 1
};

struct AnswerScores {
  double loss = 0;  // the mean cross-entropy of first and last tokens (natural logarithm)
  AnswerTotals all, unanswerable;
};

// Runs the model without dropout. Texts may lack the answer if a question of the data has none. Nothing if
// the request's stop was set before the end.
std::optional<AnswerScores> score_answers(const models::TextEncoder& model, const data::Questions& questions,
                                          const AnswerRows& rows, int64_t max_answer_tokens,
                                          int64_t batch_tokens, const EvaluationRequest& request = {});

}  // namespace qkv::train
