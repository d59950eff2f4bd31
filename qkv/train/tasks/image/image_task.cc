#include "qkv/train/tasks/image/image_task.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/losses.h"
#include "qkv/ops/general/scale.h"
#include "qkv/ops/general/weighted_sum.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/train/fields.h"
#include "qkv/train/tasks/image/image_scores.h"
#include "qkv/train/tasks/image/image_start.h"

namespace qkv::data {

static Words<CropFill> words(CropFill) {
  static constexpr std::array<std::pair<std::string_view, CropFill>, 2> kWords{
      {{"zero", CropFill::zero}, {"reflect", CropFill::reflect}}};
  return kWords;
}

}  // namespace qkv::data

namespace qkv::train {
namespace {

constexpr const char* kProcessorFile = "preprocessor_config.json";
constexpr const char* kTop5 = "top5_accuracy";
constexpr size_t kTop5Classes = 5;  // with so few classes, every class is among the five

class ImageBatches : public BatchStream {
 public:
  ImageBatches(const data::ImageSet& set, const models::ImageProcessor& processor,
               const ImageOptions& options, uint64_t seed, data::CursorState from)
      : set_(set),
        processor_(processor),
        options_(options),
        seed_(seed),
        cursor_(std::vector<int64_t>(static_cast<size_t>(set.size()), 1),
                {.budget = options.batch_images, .seed = seed}, from) {}

  std::unique_ptr<Batch> next() override {
    data::Batch drawn = cursor_.next();
    const int64_t count = std::ssize(drawn.items);
    auto batch = std::make_unique<ImageBatch>();
    batch->size = {.items = count, .units = count, .labels = count};
    batch->images = std::move(drawn.items);
    for (const int64_t image : batch->images)
      batch->labels.push_back(set_.labels[static_cast<size_t>(image)]);
    batch->pixels = augmented(batch->images, drawn.epoch);
    if (options_.mixup > 0) mix(*batch, drawn.epoch);
    return batch;
  }
  data::CursorState state() const override { return cursor_.state(); }
  int64_t batches_in_epoch() const override { return cursor_.batches_in_epoch(); }

 private:
  data::ImageKey key(int64_t image, int64_t epoch) const { return {seed_, epoch, image}; }

  Tensor augmented(const std::vector<int64_t>& images, int64_t epoch) const {
    Tensor pixels = Tensor::empty({std::ssize(images), set_.channels, set_.height, set_.width});
    std::vector<uint8_t> changed(static_cast<size_t>(set_.image_bytes()));
    float* to = pixels.data();
    for (const int64_t image : images) {
      data::augment(set_.image(image), {set_.channels, set_.height, set_.width}, options_.augment,
                    key(image, epoch), changed);
      write_pixels(changed, set_.channels, processor_, to);
      to += set_.image_bytes();
    }
    return pixels;
  }

  // Zhang et al. 2018, section 2: x = lambda x_i + (1 - lambda) x_j.
  void mix(ImageBatch& batch, int64_t epoch) const {
    const size_t count = batch.images.size();
    const Tensor plain = batch.pixels;
    batch.pixels = empty_like(plain);
    const auto numbers = static_cast<size_t>(set_.image_bytes());  // a byte of an image is a number here
    for (size_t i = 0; i < count; ++i) {
      const size_t other = (i + 1) % count;
      const float weight = data::mixup_weight(options_.mixup, key(batch.images[i], epoch));
      const auto x = plain.values().subspan(i * numbers, numbers),
                 y = plain.values().subspan(other * numbers, numbers);
      const auto to = batch.pixels.values().subspan(i * numbers, numbers);
      for (size_t e = 0; e < numbers; ++e) to[e] = weight * x[e] + (1 - weight) * y[e];
      batch.weights.push_back(weight);
      batch.other_labels.push_back(batch.labels[other]);
    }
  }

  const data::ImageSet& set_;
  const models::ImageProcessor& processor_;
  ImageOptions options_;
  uint64_t seed_;
  data::BatchCursor cursor_;
};

models::ImageEncoderConfig with_patch_dropout(models::ImageEncoderConfig config, float rate) {
  config.patch_dropout = rate;
  return config;
}

Tensor labels_of(const std::vector<int32_t>& labels) { return Tensor::from(labels, {std::ssize(labels)}); }

}  // namespace

void list_settings(Settings& all, ImageOptions& o) {
  all.add("train.batch_images", o.batch_images, kDecidesWeights, at_least(1))
      .flag({"IMAGES", "Images per batch"});
  all.add("train.label_smoothing", o.label_smoothing, kDecidesWeights, below_one())
      .flag({"SHARE", "Label smoothing; 0: none"});
  all.add("train.patch_dropout", o.patch_dropout, kDecidesWeights, below_one())
      .flag(
          {"RATE",
           "Share of each image's patches to leave out of a step (PatchDropout), for faster steps; 0: none"});
  all.add("augment.crop_padding", o.augment.crop_padding, kDecidesWeights)
      .flag({"PIXELS", "Random crops of images extended by this many pixels on each side; 0: none"});
  all.add("augment.crop_fill", o.augment.crop_fill, kDecidesWeights)
      .flag({"|", "The pixels of the extension: black or mirrored"});
  all.add("augment.flip", o.augment.flip, kDecidesWeights)
      .flag({"SHARE", "Share of images to flip horizontally; 0: none"});
  all.add("augment.erase", o.augment.erase, kDecidesWeights)
      .flag({"SHARE",
             "Share of images in which a random rectangle becomes random pixels (random erasing); 0: none"});
  all.add("augment.erase_least", o.augment.erase_least, kDecidesWeights);
  all.add("augment.erase_most", o.augment.erase_most, kDecidesWeights);
  all.add("augment.erase_aspect", o.augment.erase_aspect, kDecidesWeights);
  all.add("augment.mixup", o.mixup, kDecidesWeights, between(0, 100))
      .flag({"ALPHA", "Mix pairs of images and their classes with weights from Beta(ALPHA, ALPHA); 0: none"});
}

void ImageOptions::validate(int64_t height, int64_t width) const {
  validate_settings(*this);
  augment.validate(height, width);
}

ImageTask::ImageTask(Inputs inputs)
    : ModelTask(with_patch_dropout(inputs.config, inputs.options.patch_dropout), std::move(inputs.fields)),
      inputs_(std::move(inputs)),
      processor_(inputs_.preprocessing) {
  // Read here, as the folder may vanish during the run.
  processor_json_ = inputs_.start ? read_file(inputs_.start->files_at() / kProcessorFile)
                                  : models::image_processor_json(inputs_.preprocessing);
  const models::ImageEncoderConfig& config = inputs_.config;
  inputs_.options.validate(config.height, config.width);
  for (const data::ImageSet* set : {&inputs_.train, inputs_.valid ? &*inputs_.valid : &inputs_.train}) {
    if (set->channels != config.channels || set->height != config.height || set->width != config.width ||
        set->classes != config.labels) {
      throw UsageError("images: expected the model's channels, size and classes, found others");
    }
  }
}

void ImageTask::initialise_randomly(uint64_t seed) { initialise_vit(model_, seed); }

void ImageTask::begin(const std::filesystem::path& folder) const {
  if (inputs_.start) inputs_.start->begin(folder);
}

TaskInfo ImageTask::info() const {
  return {.name = "image",
          .items = "images",
          .units = "images",
          .train_items = inputs_.train.size(),
          .valid_items = inputs_.valid ? inputs_.valid->size() : 0,
          .sizes = {{"classes", std::ssize(inputs_.config.labels)}, {"tokens", inputs_.config.tokens()}}};
}

std::vector<Field> ImageTask::data_fields() const {
  return {{"data.fingerprint", std::to_string(data::fingerprint(inputs_.train))},
          {"valid.fingerprint", inputs_.valid ? std::to_string(data::fingerprint(*inputs_.valid)) : "0"}};
}

std::vector<optim::ParameterGroup> ImageTask::parameter_groups() const {
  return {{.contains =
               [](const optim::NamedParameter& parameter) {
                 return parameter.name == "class_token" || parameter.name == "positions";
               },
           .weight_decay = 0.0f}};
}

std::unique_ptr<BatchStream> ImageTask::batches(uint64_t seed, data::CursorState from) const {
  return std::make_unique<ImageBatches>(inputs_.train, processor_, inputs_.options, seed, from);
}

BatchLoss ImageTask::loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const {
  const auto& own = static_cast<const ImageBatch&>(batch);
  const Variable hidden = model_(own.pixels, context);
  const int64_t images = std::ssize(own.labels);
  const Variable logits =
      model_.classifier_logits(hidden, Offsets::uniform(images, hidden.value().rows() / images));
  const ClassLossOptions options{.label_smoothing = inputs_.options.label_smoothing,
                                 .reduction = own.weights.empty() ? Reduction::sum : Reduction::none};
  Variable sum = cross_entropy(logits, labels_of(own.labels), options);
  if (!own.weights.empty()) {
    // The cross-entropy with the mixed label is the mixture of the cross-entropies.
    std::vector<float> other_weights;
    for (const float weight : own.weights) other_weights.push_back(1 - weight);
    const Shape shape{std::ssize(own.weights)};
    const Device device = logits.value().device();
    const Variable others = cross_entropy(logits, labels_of(own.other_labels), options);
    sum = weighted_sum(sum, from_host(Tensor::from(own.weights, shape), device)) +
          weighted_sum(others, from_host(Tensor::from(other_weights, shape), device));
  }
  return {scaled(sum, 1.0f / static_cast<float>(step.labels)),
          {{"loss", CurveSum(sum), static_cast<double>(batch.size.labels)}}};
}

std::vector<Metric> ImageTask::metrics() const {
  std::vector<Metric> all{{.name = "accuracy", .higher_is_better = true}};
  if (inputs_.config.labels.size() > kTop5Classes) all.push_back({.name = kTop5, .higher_is_better = true});
  return all;
}

std::optional<Evaluation> ImageTask::evaluate(const EvaluationRequest& request) const {
  const std::optional<ImageScores> scores =
      score_images(model_, processor_, *inputs_.valid, inputs_.options.batch_images, request);
  if (!scores) return std::nullopt;
  Evaluation result{.loss = scores->loss, .metrics = {{"accuracy", scores->accuracy}}};
  if (inputs_.config.labels.size() > kTop5Classes) result.metrics[kTop5] = scores->top5_accuracy;
  return result;
}

void ImageTask::export_model(const std::filesystem::path& folder) const {
  make_writable_folder(folder);
  write_file_atomically(folder / kProcessorFile, processor_json_);
  models::save_image_encoder(folder, model_, inputs_.start ? inputs_.start->family() : "vit");
  pipelines::write_proof(folder);
}

models::ImageProcessorConfig preprocessing_of(const data::ImageSet& train) {
  models::ImageProcessorConfig config{.channels = train.channels,
                                      .resize = models::ImageSize{train.height, train.width}};
  const std::vector<data::ChannelMoments> moments = data::channel_moments(train);
  for (size_t c = 0; c < moments.size(); ++c) {
    config.mean[c] = static_cast<float>(moments[c].mean / 255);
    config.deviation[c] = moments[c].deviation > 0 ? static_cast<float>(moments[c].deviation / 255) : 1.0f;
  }
  return config;
}

}  // namespace qkv::train
