#pragma once
// An image classifier from files of images: reading, training, model folder.

#include <atomic>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/models/shape.h"
#include "qkv/train/job.h"
#include "qkv/train/tasks/image/image_reading.h"
#include "qkv/train/tasks/image/image_task.h"

namespace qkv::train {

struct ImageJob : Job {
  // Defaults of the trainer's options: AdamW with weight decay 0.05, a cosine schedule, averaged weights.
  ImageJob();

  data::ImageSource train;
  data::ImageSource valid;  // empty: data.hold_out, or no validation
  ImageReadingOptions reading;
  // A folder of a ViT or DeiT whose weights the run starts from, and whose preprocessing replaces
  // reading.resize and reading.channels; empty: random weights. Of `shape` only the rates of dropout and
  // stochastic depth then have an effect; the rest and `patch` record the folder's.
  std::filesystem::path from;
  models::ModelShape shape;
  int64_t patch = 4;  // side of a patch, in pixels
  ImageOptions task;

  std::string task_name() const override { return "image"; }
  void use_preset(std::string_view name) override;
  bool has_validation() const override { return !valid.images.empty() || reading.hold_out > 0; }
  void check() const override;
  std::unique_ptr<Task> make_task(bool resumes, TrainObserver& observer,
                                  const std::atomic<bool>* stop) const override;

 private:
  void list(Settings& all) override;
  Defaults short_run() const override;
  // With `from`, the run has 3 epochs; throws UsageError naming a setting that the folder decides.
  void complete_task(const std::set<std::string>& given) override;
  std::unique_ptr<Task> make_task_from(bool resumes, TrainObserver& observer,
                                       const std::atomic<bool>* stop) const;
};

// "mini": 6 layers of 96 with patches of 4, for small images; and with patches of 16 "tiny" and "small"
// (Touvron et al. 2021, table 1: 12 layers of 192 and 384) and "base" (Dosovitskiy et al. 2021, table 1: 12
// of 768).
std::vector<std::string> image_preset_names();

}  // namespace qkv::train
