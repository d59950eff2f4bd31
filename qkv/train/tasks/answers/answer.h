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

}  // namespace qkv::train
