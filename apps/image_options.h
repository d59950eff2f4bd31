#pragma once
// The options that the commands for images share.

#include <optional>

#include "apps/command.h"
#include "qkv/base/error.h"
#include "qkv/pipelines/image_encoder.h"

namespace qkv::apps {

struct ImageArguments {
  std::optional<int64_t> side;
};

// --image-size. `arguments` has to live as long as the command.
inline void add_image_options(CLI::App& command, ImageArguments& arguments) {
  add_option(command, "--image-size", arguments.side, "PIXELS",
             "Height and width that images are resized to, a multiple of the patch size; position\n"
             "embeddings are interpolated; image models only (default: the model's)");
}

inline pipelines::ImageEncoderOptions image_options(const ImageArguments& arguments) {
  pipelines::ImageEncoderOptions options;
  if (arguments.side) options.size = models::ImageSize{*arguments.side, *arguments.side};
  return options;
}

// For models that read text. Throws UsageError.
inline void require_no_images(const ImageArguments& arguments) {
  if (arguments.side) throw UsageError("--image-size: expected a model of images, found one that reads text");
}

}  // namespace qkv::apps
