#pragma once
// Options common to the image commands.

#include <optional>

#include "apps/command.h"
#include "qkv/base/error.h"
#include "qkv/pipelines/images/image_encoder.h"

namespace qkv::apps {

struct ImageArguments {
  std::optional<int64_t> side;
};

// --image-size. `arguments` must live as long as the command.
inline void add_image_options(Command& command, ImageArguments& arguments) {
  add_option(command, "--image-size", arguments.side, "PIXELS",
             "Height and width that images are resized to, a multiple of the patch size; position\n"
             "embeddings are interpolated; image models only (default: the model's)");
}

inline pipelines::ImageEncoderOptions image_options(const ImageArguments& arguments) {
  pipelines::ImageEncoderOptions options;
  if (arguments.side) options.size = models::ImageSize{*arguments.side, *arguments.side};
  return options;
}

// For text models. Throws UsageError.
inline void require_no_images(const ImageArguments& arguments) {
  if (arguments.side) throw UsageError("--image-size: only for image models");
}

}  // namespace qkv::apps
