#pragma once
// Short runs of image classification, on images of bars.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "qkv/train/tasks/image/image.h"
#include "tests/support/image_files.h"
#include "tests/support/scratch.h"
#include "tests/train/recorder.h"

namespace qkv::train {

inline constexpr int kImageSide = 8;

class ImageTraining : public ::testing::Test {
 protected:
  ImageTraining() {
    testing::write_bars(scratch_, "train", 96, kImageSide);
    testing::write_bars(scratch_, "valid", 30, kImageSide);
  }

  // A short run in this folder, of everything with a state.
  ImageJob job(const std::string& folder) const {
    ImageJob result;
    result.folder = scratch_ / folder;
    result.existing = IfRunExists::resume;
    result.use_preset("mini");
    result.train = {scratch_ / "train-images", scratch_ / "train-labels"};
    result.valid = {scratch_ / "valid-images", scratch_ / "valid-labels"};
    result.shape.layers = 2;
    result.shape.d_model = 16;
    result.shape.heads = 2;
    result.shape.d_ff = 32;
    result.shape.dropout = 0.1f;
    result.task.batch_images = 16;
    result.task.augment = {.crop_padding = 1, .flip = 0.5f, .erase = 0.2f};
    result.options.optimizer.average_decay = 0.9f;
    result.options.accumulate = 2;
    result.options.schedule = {.warmup_steps = 5, .learning_rate = 0.01f};
    result.options.max_steps = 40;
    result.options.validate_every = 8;
    result.options.checkpoint_every = 5;
    result.options.log_every = 3;
    result.options.seed = 7;
    return result;
  }

  // A plain task, without augmentation.
  std::unique_ptr<Task> task_of(const ImageJob& job) const {
    Recorder observer;
    return job.make_task(false, observer, nullptr);
  }

  testing::Scratch scratch_;
};

}  // namespace qkv::train
