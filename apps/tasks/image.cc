// qkv train image

#include <nlohmann/json.hpp>

#include "apps/tasks/evaluations.h"
#include "apps/training_task.h"
#include "qkv/train/tasks/image/image.h"

namespace qkv::apps {
namespace {

constexpr FieldFlag kImageFlags[] = {
    {"--train", "data.train", "DIR|FILE",
     "Training images: a folder with a folder of PNG and JPEG files for each class, a folder of MNIST's or\n"
     "CIFAR's files, an IDX file (with --labels), or a CIFAR-binary file (default: the resumed run's)"},
    {"--labels", "data.train_labels", "FILE", "IDX file of the training images' classes (default: none)"},
    {"--valid", "data.valid", "DIR|FILE",
     "Validation images, in any of these forms; of MNIST's and CIFAR's files the test files\n"
     "(default: none)"},
    {"--valid-labels", "data.valid_labels", "FILE", "IDX file of their classes (default: none)"},
    {"--hold-out", "data.hold_out", "IMAGES",
     "Take this many training images, at random, as validation images; 0: none"},
    {"--label-names", "data.label_names", "FILE",
     "Names of the classes, one per line, for files that number them (default: the numbers)"},
    {"--resize", "data.resize", "PIXELS",
     "Resize all images to this height and width, a multiple of the patches'; 0: keep their size"},
    {"--channels", "data.channels", "CHANNELS",
     "Channels of the model: 1 (grey) or 3; 0: as in the files (PNG and JPEG: 3)"},
    {"--skip-unreadable", "data.skip_unreadable", "", "Leave out image files that cannot be decoded"},
    {"--from", "model.from", "DIR",
     "Start from this ViT or DeiT folder, with its size and preprocessing; the classifier is new unless the\n"
     "classes are the same (default: random weights)"},
    {"--patch", "model.patch", "PIXELS", "Height and width of a patch, a divisor of the images'"},
    {"--batch-images", "train.batch_images", "IMAGES", "Images per batch"},
    {"--label-smoothing", "train.label_smoothing", "SHARE", "Label smoothing; 0: none"},
    {"--patch-dropout", "train.patch_dropout", "RATE",
     "Share of each image's patches to leave out of a step (PatchDropout), for faster steps; 0: none"},
    {"--dropout", "model.dropout", "RATE", "Dropout of the embeddings and after each sublayer; 0: none"},
    {"--crop-padding", "augment.crop_padding", "PIXELS",
     "Random crops of images extended by this many pixels on each side; 0: none"},
    {"--crop-fill", "augment.crop_fill", "zero|reflect", "The pixels of the extension: black or mirrored"},
    {"--flip", "augment.flip", "SHARE", "Share of images to flip horizontally; 0: none"},
    {"--erase", "augment.erase", "SHARE",
     "Share of images in which a random rectangle becomes random pixels (random erasing); 0: none"},
    {"--mixup", "augment.mixup", "ALPHA",
     "Mix pairs of images and their classes with weights from Beta(ALPHA, ALPHA); 0: none"},
};

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
          .flags = kImageFlags,
          .run_flags = {},
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
