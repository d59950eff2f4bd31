#pragma once
// Scores of an image classifier on images with known classes.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "qkv/data/images/image_set.h"
#include "qkv/models/image_encoder.h"
#include "qkv/models/image_processor.h"
#include "qkv/train/task.h"

namespace qkv::train {

struct ImageScores {
  int64_t images = 0;
  double loss = 0;      // mean cross-entropy, without smoothing
  double accuracy = 0;  // share of images whose class has the largest logit (top-1)
  // Share of images whose class is among the five largest logits. Of equal logits, the first counts as
  // larger.
  double top5_accuracy = 0;
  // Images by class (row) and by the class with the largest logit (column).
  std::vector<std::vector<int64_t>> confusion = {};
};

// Converts an image's bytes [channels, height, width] to as many numbers.
void write_pixels(std::span<const uint8_t> image, int64_t channels, const models::ImageProcessor& processor,
                  float* to);

// Runs the model over a set whose images have the model's size and channels. The processor converts pixels to
// numbers. Returns nothing if the request's stop becomes true. Throws UsageError for a set of other classes,
// by number.
std::optional<ImageScores> score_images(const models::ImageEncoder& model,
                                        const models::ImageProcessor& processor, const data::ImageSet& set,
                                        int64_t batch_images, const EvaluationRequest& request = {});

}  // namespace qkv::train
