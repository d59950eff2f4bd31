#pragma once
// What the jobs of `classify`, `tag` and `answer` share: an encoder, one file of training data and one to
// validate on.

#include <atomic>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "qkv/train/job.h"
#include "qkv/train/tasks/labels/encoder_start.h"
#include "qkv/train/tasks/labels/encoder_task.h"

namespace qkv::train {

struct EncoderJob : Job {
  std::filesystem::path train;
  std::filesystem::path valid;  // empty: no validation
  EncoderOptions encoder;
  LabelOptions task;

  void use_preset(std::string_view name) override { encoder.shape = models::shape_preset(name); }
  bool has_validation() const override { return !valid.empty(); }
  TrainOptions trainer_options() const override;  // passes d_model to the schedule

 protected:
  virtual models::ClassificationTarget target() const = 0;
  void list(Settings& all) override;
  void refuse_unused(const std::set<std::string>& given) const override;
  // check() of all but the contents of the data.
  void check_settings() const;
  // open_encoder(), after its stage.
  EncoderStart open_start(bool resumes, TrainObserver& observer,
                          const std::function<void(const std::filesystem::path& file)>& write_texts,
                          const std::atomic<bool>* stop) const;
  // Whether a new run's folder to start from, if any, can be read.
  bool reads_start() const { return existing != IfRunExists::resume; }

 private:
  Defaults short_run() const override;
  void complete_task(const std::set<std::string>& given) override;
};

}  // namespace qkv::train
