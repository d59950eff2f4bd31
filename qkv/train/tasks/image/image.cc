#include "qkv/train/tasks/image/image.h"

#include <algorithm>
#include <array>
#include <limits>
#include <system_error>

#include "qkv/base/error.h"
#include "qkv/text/text_file.h"
#include "qkv/train/fields.h"

namespace qkv::train {
namespace {

constexpr int64_t kLongestSide = 4096;

struct Preset {
  std::string_view name;
  int64_t layers, d_model, heads, d_ff, patch;
};

constexpr std::array<Preset, 4> kPresets{{{"mini", 6, 96, 3, 192, 4},
                                          {"tiny", 12, 192, 3, 768, 16},
                                          {"small", 12, 384, 6, 1536, 16},
                                          {"base", 12, 768, 12, 3072, 16}}};

// A resumed run reads its images again.
void require_exists(const char* field, const std::filesystem::path& path) {
  if (const std::string_view kind = text::readable_once(path); !kind.empty()) {
    throw UsageError(concat(field, " ", path.string(),
                            ": expected a file or a folder, as a resumed run reads it again, found ", kind));
  }
  std::error_code ignored;
  if (path.empty() || std::filesystem::exists(path, ignored)) return;
  throw IoError(concat(field, " ", path.string(), ": expected a file or a folder, found none"));
}

void require_range(const char* field, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw UsageError(concat(field, ": expected ", least, " to ", most, ", found ", value));
}

// Preprocessing of the folder's model, which the images of the run get too.
models::ImageProcessorConfig preprocessing_of(const StartFolder& start,
                                              const models::ImageEncoderConfig& model) {
  models::ImageProcessorConfig config = models::load_image_processor(start.files_at());
  config.channels = model.channels;
  config.validate();
  if (config.size() != models::ImageSize{model.height, model.width} || model.height != model.width) {
    throw DataError(concat(start.from().string(),
                           ": expected a model of square images, and preprocessing to "
                           "their size, ",
                           model.height, " x ", model.width, ", found another"));
  }
  return config;
}

}  // namespace

std::vector<std::string> image_preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

ImageJob::ImageJob() {
  options.adam.weight_decay = 0.05f;
  options.schedule.kind = ScheduleKind::cosine;
  options.schedule.warmup_steps = 400;
}

void ImageJob::use_preset(std::string_view name) {
  const auto found = std::ranges::find(kPresets, name, &Preset::name);
  if (found == kPresets.end()) {
    std::string known;
    for (const Preset& preset : kPresets) known += concat(known.empty() ? "" : ", ", preset.name);
    throw UsageError(concat("preset: expected one of ", known, ", found '", name, "'"));
  }
  shape = {.layers = found->layers,
           .d_model = found->d_model,
           .heads = found->heads,
           .d_ff = found->d_ff,
           .dropout = 0,
           .attention_dropout = 0};
  patch = found->patch;
}

Job::Defaults ImageJob::short_run() const {
  if (!from.empty()) return {};
  return {{"model.layers", "3"}, {"train.batch_images", "32"}};
}

void ImageJob::complete_task(const std::set<std::string>& given) {
  if (from.empty()) return;
  refuse_settings_of_folder(given, {"data.resize", "data.channels"});
  const models::ModelShape wanted = shape;
  const models::ImageEncoderConfig own =
      StartFolder(from, models::FolderKind::image, {}, /*resumes=*/false).image_encoder_config();
  shape = shape_of(own.encoder, shape.max_positions);
  take_given(shape, wanted, given);
  patch = own.patch;
  limit_fine_tuning(options, given);
}

void ImageJob::check() const {
  if (train.images.empty())
    throw UsageError("data.train: expected a folder or a file of training images, found none");
  trainer_options().validate();
  validate_model(shape);
  require_range("model.patch", patch, 1, kLongestSide);
  require_range("data.resize", reading.resize, 0, kLongestSide);
  // With `from`, the folder's preprocessing resizes, to the size of its model.
  const bool resizes = from.empty() && reading.resize > 0;
  if (resizes && reading.resize % patch != 0) {
    throw UsageError(
        concat("data.resize: expected a multiple of the patches' ", patch, ", found ", reading.resize));
  }
  // Sizes that are not known yet are checked when the images are read.
  const int64_t side = resizes ? reading.resize : kLongestSide;
  task.validate(side, side);
  if (reading.channels != 0 && reading.channels != 1 && reading.channels != 3)
    throw UsageError(concat("data.channels: expected 0, 1 or 3, found ", reading.channels));
  require_range("data.hold_out", reading.hold_out, 0, std::numeric_limits<int32_t>::max());
  if (valid.images.empty() && !valid.labels.empty())
    throw UsageError("data.valid_labels: expected validation images (data.valid) with them, found none");
  if (!valid.images.empty() && reading.hold_out > 0) {
    throw UsageError(concat("data.hold_out: expected 0 with validation images, found ", reading.hold_out));
  }
  if (valid.images.empty() && reading.hold_out == 0 && options.patience > 0) {
    throw UsageError(
        concat("train.patience: expected 0 without validation images, found ", options.patience));
  }
  require_exists("data.train", train.images);
  require_exists("data.train_labels", train.labels);
  require_exists("data.valid", valid.images);
  require_exists("data.valid_labels", valid.labels);
  require_exists("data.label_names", reading.label_names);
}

std::unique_ptr<Task> ImageJob::make_task(bool resumes, TrainObserver& observer,
                                          const std::atomic<bool>* stop) const {
  if (!from.empty()) return make_task_from(resumes, observer, stop);
  observer.on_stage("reading images");
  ImageSets sets = read_image_sets(train, valid, reading, set_options(reading), stop);
  if (sets.train.height % patch != 0) {
    throw UsageError(concat("model.patch: expected a divisor of the images' side, ", sets.train.height,
                            " pixels, found ", patch));
  }
  const models::ImageProcessorConfig preprocessing = preprocessing_of(sets.train);
  models::ImageEncoderConfig config =
      models::vit(shape, sets.train.channels, sets.train.height, patch, sets.train.classes);
  return std::make_unique<ImageTask>(ImageTask::Inputs{.config = std::move(config),
                                                       .options = task,
                                                       .train = std::move(sets.train),
                                                       .valid = std::move(sets.valid),
                                                       .preprocessing = preprocessing,
                                                       .fields = task_fields()});
}

std::unique_ptr<Task> ImageJob::make_task_from(bool resumes, TrainObserver& observer,
                                               const std::atomic<bool>* stop) const {
  const StartFolder start(from, models::FolderKind::image, folder, resumes);
  models::ImageEncoderConfig config = start.image_encoder_config();
  const models::ImageProcessorConfig preprocessing = preprocessing_of(start, config);
  observer.on_stage("reading images");
  data::ImageSetOptions how{.channels = config.channels, .skip_unreadable = reading.skip_unreadable};
  const models::ImageProcessor processor(preprocessing);
  how.fit = [&processor](const data::Image& image) { return processor.resize_and_crop(image); };
  ImageSets sets = read_image_sets(train, valid, reading, how, stop);
  config.labels = sets.train.classes;
  config.problem = models::ProblemType::single_label;
  config.pooler = config.distillation_classifier = false;
  config.dropout = shape.dropout;
  config.encoder.set_dropout(shape.dropout, shape.attention_dropout);
  config.encoder.drop_path = shape.drop_path;
  return std::make_unique<ImageTask>(ImageTask::Inputs{.config = std::move(config),
                                                       .options = task,
                                                       .train = std::move(sets.train),
                                                       .valid = std::move(sets.valid),
                                                       .preprocessing = preprocessing,
                                                       .start = start,
                                                       .fields = task_fields()});
}

void ImageJob::list(Settings& all) {
  all.add_model(shape, {"key_heads", "max_positions", "experts", "experts_per_token"});  // none in a ViT
  all.flag("model.dropout", {"RATE", "Dropout of the embeddings and after each sublayer; 0: none"});
  // Files may move: their images' fingerprint identifies them.
  all.add("data.train", train.images, kBookkeeping)
      .flag({"DIR|FILE",
             "Training images: a folder with a folder of PNG and JPEG files for each class, a folder of "
             "MNIST's or CIFAR's files, an IDX file (with --labels), or a CIFAR-binary file (default: the "
             "resumed run's)"});
  all.add("data.train_labels", train.labels, kBookkeeping)
      .flag({"FILE", "IDX file of the training images' classes (default: none)", "--labels"});
  all.add("data.valid", valid.images, kBookkeeping)
      .flag({"DIR|FILE",
             "Validation images, in any of these forms; of MNIST's and CIFAR's files the test files "
             "(default: none)"});
  all.add("data.valid_labels", valid.labels, kBookkeeping)
      .flag({"FILE", "IDX file of their classes (default: none)"});
  all.add("data.hold_out", reading.hold_out, kDecidesWeights)
      .flag({"IMAGES", "Take this many training images, at random, as validation images; 0: none"});
  all.add("data.resize", reading.resize, kDecidesWeights)
      .flag({"PIXELS",
             "Resize all images to this height and width, a multiple of the patches'; 0: keep their size"});
  all.add("data.channels", reading.channels, kDecidesWeights)
      .flag({"CHANNELS", "Channels of the model: 1 (grey) or 3; 0: as in the files (PNG and JPEG: 3)"});
  all.add("data.skip_unreadable", reading.skip_unreadable, kDecidesWeights)
      .flag({"", "Leave out image files that cannot be decoded"});
  all.add("data.label_names", reading.label_names, kBookkeeping)
      .flag(
          {"FILE", "Names of the classes, one per line, for files that number them (default: the numbers)"});
  all.add("model.from", from, kDecidesWeights)
      .flag({"DIR",
             "Start from this ViT or DeiT folder, with its size and preprocessing; the classifier is new "
             "unless the classes are the same (default: random weights)"});
  all.add("model.patch", patch, kDecidesWeights)
      .flag({"PIXELS", "Height and width of a patch, a divisor of the images'"});
  list_settings(all, task);
}

}  // namespace qkv::train
