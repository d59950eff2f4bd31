// qkv train image

#include <nlohmann/json.hpp>

#include "apps/tasks/evaluations.h"
#include "apps/training_task.h"
#include "qkv/train/tasks/image/image.h"

namespace qkv::apps {
namespace {

constexpr const char* kImageFooter = R"(Example:
  qkv train image --train train-images-idx3-ubyte.gz --labels train-labels-idx1-ubyte.gz \
      --hold-out 5000 --out model --max-minutes 30
  qkv train image --train photos/train --valid photos/valid --resize 64 --patch 8 --out model
  qkv classify model photos/new/*.jpg

IDX and CIFAR files may be compressed by gzip. Images of several sizes need --resize. Damaged files are an
error that names the file; --skip-unreadable leaves out and counts PNG and JPEG files that cannot be decoded.
Random crops, flips and erasing are functions of the seed, the epoch and the image. Ctrl-C saves and stops;
`qkv train --resume DIR` continues to the same bits as an uninterrupted run. DIR is a model folder (the best
by validation accuracy) that qkv classify, qkv evaluate image and Hugging Face transformers open. The
curves: DIR/curve.svg and DIR/log.jsonl, or `tensorboard --logdir DIR/runs`.)";

}  // namespace

TrainingTask image_task() {
  return {.name = "image",
          .description = "Train a vision Transformer (ViT) on images with classes",
          .footer = kImageFooter,
          .presets = train::image_preset_names(),
          .preset = "mini",
          .make_job = [] { return std::make_unique<train::ImageJob>(); },
          .batch_json =
              [](const train::Batch& batch) {
                const auto& own = dynamic_cast<const train::ImageBatch&>(batch);
                nlohmann::json json{{"images", own.images}, {"labels", own.labels}};
                if (!own.weights.empty()) {
                  json["weights"] = own.weights;
                  json["other_labels"] = own.other_labels;
                }
                return json;
              },
          .add_evaluation = add_image_evaluation};
}

}  // namespace qkv::apps
