#pragma once
// A model that answers questions by spans of texts, from questions with their answers.

#include "qkv/train/tasks/answers/answer_task.h"
#include "qkv/train/tasks/labels/encoder_job.h"

namespace qkv::train {

struct AnswerJob : EncoderJob {
  AnswerSettings answers;

  std::string task_name() const override { return "answer"; }
  void check() const override;
  std::unique_ptr<Task> make_task(bool resumes, TrainObserver& observer,
                                  const std::atomic<bool>* stop) const override;

 protected:
  models::ClassificationTarget target() const override { return models::ClassificationTarget::spans; }
  void list(Settings& all) override;
};

// How the texts are read: in windows of `max_length` tokens; 0: the model's limit, at most 384. Throws
// UsageError naming `setting` for more than the model's limit.
text::Windows answer_windows(const char* setting, int64_t max_length, int64_t shared,
                             std::optional<int64_t> model_limit);

}  // namespace qkv::train
