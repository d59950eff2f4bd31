#pragma once
// Random changes of training images. All are pure functions of (seed, epoch, image), so that they do not
// depend on batches, threads or interruptions.

#include <cstdint>
#include <span>

namespace qkv::data {

enum class CropFill {
  zero,     // black
  reflect,  // mirrored without repeating the edge
};

struct AugmentOptions {
  // Random crop: the image is extended by this many pixels on each side, and a part of the image's own size
  // is taken at a random place. 0: off.
  int64_t crop_padding = 0;
  CropFill crop_fill = CropFill::zero;
  float flip = 0;  // probability of a horizontal flip
  // Random erasing (Zhong et al. 2020, algorithm 1): with this probability, a rectangle of a random share of
  // the area and a random aspect ratio becomes random pixels. Applied last.
  float erase = 0;
  float erase_least = 0.02f, erase_most = 0.4f;  // the paper's s_l and s_h: shares of the area
  float erase_aspect = 0.3f;                     // the paper's r_1; the aspect ratio is r_1 to 1 / r_1

  // Throws UsageError naming the field ("augment.flip"), for images of this size.
  void validate(int64_t height, int64_t width) const;
};

// The image of an epoch.
struct ImageKey {
  uint64_t seed = 0;
  int64_t epoch = 0, image = 0;
};

struct ImageExtents {
  int64_t channels = 0, height = 0, width = 0;
};

// from, to: [channels, height, width]; they must not overlap.
void augment(std::span<const uint8_t> from, const ImageExtents& extents, const AugmentOptions& options,
             const ImageKey& key, std::span<uint8_t> to);

// Mixup (Zhang et al. 2018): the weight lambda ~ Beta(alpha, alpha) of this image in lambda x_i + (1 -
// lambda) x_j. alpha > 0.
float mixup_weight(float alpha, const ImageKey& key);

}  // namespace qkv::data
