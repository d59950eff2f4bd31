#pragma once
// Image classification as a training task: a ViT (Dosovitskiy et al. 2021), augmented images, cross-entropy.

#include <optional>

#include "qkv/data/images/augment.h"
#include "qkv/data/images/image_set.h"
#include "qkv/models/image_encoder.h"
#include "qkv/models/image_processor.h"
#include "qkv/train/task.h"
#include "qkv/train/tasks/model_task.h"

namespace qkv::train {

struct ImageOptions {
  int64_t batch_images = 128;    // images per batch
  float label_smoothing = 0.1f;  // of the objective (Szegedy et al. 2016)
  // Share of each image's patches that are left out in training (models/patch_dropout.h).
  float patch_dropout = 0;
  data::AugmentOptions augment{.crop_padding = 2, .flip = 0.5f};
  // Mixup (Zhang et al. 2018): alpha of its Beta distribution; 0: off. An image is mixed with the next one of
  // its batch, which is a random sample.
  float mixup = 0;

  // Throws UsageError naming the field, for images of this size.
  void validate(int64_t height, int64_t width) const;
};

void list_settings(Settings& all, ImageOptions& options);

struct ImageBatch : Batch {
  std::vector<int64_t> images;  // indices in the training set
  Tensor pixels;                // f32 [images, channels, height, width], mixed
  std::vector<int32_t> labels;  // of the images
  // Mixup: the weight of each image, and the label of the image it is mixed with. Empty without mixup.
  std::vector<float> weights;
  std::vector<int32_t> other_labels;
};

// Owns model and images.
class ImageTask : public ModelTask<models::ImageEncoder> {
 public:
  struct Inputs {
    models::ImageEncoderConfig config;  // its labels are the training set's classes
    ImageOptions options;
    data::ImageSet train;                        // of the model's size and channels
    std::optional<data::ImageSet> valid = {};    // likewise, with the same classes
    models::ImageProcessorConfig preprocessing;  // to the model's size
    std::optional<StartFolder> start = {};       // of the initial weights, with a preprocessor_config.json
    std::vector<Field> fields = {};              // settings of data and model
  };
  // Throws UsageError for invalid options or an invalid configuration.
  explicit ImageTask(Inputs inputs);

  TaskInfo info() const override;
  void begin(const std::filesystem::path& folder) const override;
  // The class token and the positions have no weight decay.
  std::vector<optim::ParameterGroup> parameter_groups() const override;
  std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const override;
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override;
  // "accuracy", and with more than five classes "top5_accuracy".
  std::vector<Metric> metrics() const override;
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override;
  void export_model(const std::filesystem::path& folder) const override;
  bool is_head(const std::string& parameter) const override { return parameter.starts_with("classifier."); }

 private:
  const StartFolder* start_folder() const override { return inputs_.start ? &*inputs_.start : nullptr; }
  void initialise_randomly(uint64_t seed) override;
  std::vector<Field> data_fields() const override;

  Inputs inputs_;
  models::ImageProcessor processor_;
  std::string processor_json_;  // of the exported folder
};

// The preprocessing that scales a training set's channels to mean 0 and standard deviation 1. (A channel
// without variation is only shifted.)
models::ImageProcessorConfig preprocessing_of(const data::ImageSet& train);

}  // namespace qkv::train
