// Image classification: learning, batches, mixup, resuming, messages, exported folders.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/ops/tape.h"
#include "qkv/pipelines/images.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/train/tasks/image/image.h"
#include "qkv/train/tasks/image/image_scores.h"
#include "qkv/train/tasks/image/image_start.h"
#include "tests/support/image_files.h"
#include "tests/support/scratch.h"

namespace qkv::train {
namespace {

using namespace qkv::testing;  // NOLINT(google-build-using-namespace)

constexpr int kSide = 8;

struct Observer : TrainObserver {
  int64_t fail_after = 0;
  std::vector<double> losses;
  StartReport start;
  void on_start(const StartReport& report) override { start = report; }
  void on_step(const StepReport& report) override {
    losses.push_back(report.loss);
    if (report.step == fail_after) throw IoError("interrupted");
  }
};

class ImageTraining : public ::testing::Test {
 protected:
  ImageTraining() {
    write_bars(scratch_, "train", 96, kSide);
    write_bars(scratch_, "valid", 30, kSide);
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
    Observer observer;
    return job.make_task(false, observer, nullptr);
  }

  Scratch scratch_;
};

// At the start, positions are as strong as patches of independent pixels, and those of near patches are
// alike.
TEST(ImageStart, PositionsOfNearPatchesAreAlike) {
  models::ImageEncoderConfig config{.channels = 1, .height = 28, .width = 28, .patch = 4, .distilled = true};
  config.encoder = {.layers = 1,
                    .layer = {.d_model = 96, .heads = 3, .d_ff = 192, .norm = nn::NormPlacement::pre}};
  config.labels = {"a", "b"};
  const models::ImageEncoder model(config), again(config);
  initialise_vit(model, 5);
  initialise_vit(again, 5);
  std::map<std::string, Tensor> values;
  model.visit(
      [&](const std::string& name, const nn::Parameter& one) { values[name] = one.variable.value(); });
  again.visit([&](const std::string& name, const nn::Parameter& one) {
    EXPECT_TRUE(std::ranges::equal(one.variable.value().values(), values.at(name).values())) << name;
  });

  const auto mean_square = [](const Tensor& x) {
    double sum = 0;
    for (const float value : x.values()) sum += double{value} * double{value};
    return sum / static_cast<double>(x.numel());
  };
  const Tensor positions = values.at("positions"), own = positions.slice_rows(0, 2).clone(),
               grid = positions.slice_rows(2, 49).clone();
  EXPECT_NEAR(std::sqrt(mean_square(own)), 0.02, 0.005);
  EXPECT_NEAR(mean_square(grid), 16 * mean_square(values.at("patches.weight")), 0.03);
  EXPECT_NEAR(std::sqrt(mean_square(values.at("classifier.weight"))), 0.02, 0.005);

  const auto cosine = [&](int64_t i, int64_t j) {
    double dot = 0, first = 0, second = 0;
    for (int64_t f = 0; f < 96; ++f) {
      dot += double{grid.at(i, f)} * double{grid.at(j, f)};
      first += double{grid.at(i, f)} * double{grid.at(i, f)};
      second += double{grid.at(j, f)} * double{grid.at(j, f)};
    }
    return dot / std::sqrt(first * second);
  };
  const int64_t middle = 3 * 7 + 3;
  for (const int64_t direction : {1, 7}) {
    EXPECT_GT(cosine(middle, middle + direction), cosine(middle, middle + 2 * direction));
    EXPECT_GT(cosine(middle, middle + 2 * direction), cosine(middle, middle + 3 * direction));
    EXPECT_NEAR(cosine(middle, middle + direction), cosine(0, direction), 1e-5);
  }
}

TEST_F(ImageTraining, Learns) {
  ImageJob wanted = job("out");
  wanted.options.max_steps = 150;
  wanted.options.validate_every = 50;
  wanted.shape.dropout = 0;
  wanted.task.augment = {.flip = 0.5f};
  Observer observer;
  const TrainResult result = run_job(wanted, observer);
  EXPECT_EQ(observer.start.task.units, "images");
  EXPECT_EQ(observer.start.task.train_items, 96);
  EXPECT_EQ(observer.start.task.valid_items, 30);
  // Two classes: the first loss is near ln 2, the last near the smoothed optimum, 0.199.
  EXPECT_NEAR(observer.losses.front(), std::log(2.0), 0.15);
  EXPECT_LT(observer.losses.back(), 0.25);
  EXPECT_EQ(result.best_by, "accuracy");
  EXPECT_EQ(result.best.at("accuracy"), 1);
  EXPECT_FALSE(result.best.contains("top5_accuracy")) << "two classes are always among five";
}

TEST_F(ImageTraining, LearnsFromMixedImages) {
  ImageJob wanted = job("out");
  wanted.options.max_steps = 200;
  wanted.task.mixup = 0.4f;
  Observer observer;
  const TrainResult result = run_job(wanted, observer);
  EXPECT_GT(result.best.at("accuracy"), 0.9);
  EXPECT_GT(result.train_loss.value(), 0.25) << "labels are mixed, so the loss cannot vanish";
}

TEST_F(ImageTraining, LearnsFromAPartOfThePatches) {
  ImageJob one = job("out");
  one.patch = 2;
  one.task.augment = {};
  one.task.patch_dropout = 0.5f;
  one.options.max_steps = 80;
  Observer observer;
  EXPECT_GE(run_job(one, observer).best.at("accuracy"), 0.95);
}

TEST_F(ImageTraining, ClassTokenAndPositionsDoNotDecay) {
  const std::unique_ptr<Task> task = task_of(job("out"));
  const auto groups = task->parameter_groups();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].weight_decay, 0.0f);
  int64_t selected = 0;
  task->visit([&](const std::string& name, const nn::Parameter& parameter) {
    selected += groups[0].contains({name, parameter}) ? 1 : 0;
  });
  EXPECT_EQ(selected, 2);
}

TEST_F(ImageTraining, BatchesAreAFunctionOfThePosition) {
  ImageJob wanted = job("out");
  wanted.task.mixup = 1;
  const std::unique_ptr<Task> task = task_of(wanted);
  const auto all = task->batches(5, {});
  EXPECT_EQ(all->batches_in_epoch(), 6);
  std::vector<std::unique_ptr<Batch>> first;
  std::vector<data::CursorState> states;
  for (int i = 0; i < 9; ++i) {
    states.push_back(all->state());
    first.push_back(all->next());
  }
  for (const size_t i : {0u, 3u, 7u}) {
    const auto again = task->batches(5, states[i])->next();
    const auto &a = dynamic_cast<const ImageBatch&>(*first[i]), &b = dynamic_cast<const ImageBatch&>(*again);
    EXPECT_EQ(a.images, b.images);
    EXPECT_EQ(a.weights, b.weights);
    EXPECT_TRUE(std::ranges::equal(a.pixels.values(), b.pixels.values()));
    EXPECT_EQ(a.size.items, 16);
    EXPECT_EQ(a.size.labels, 16);
  }
  // Each epoch has every image once, in another order.
  std::vector<int64_t> images;
  for (size_t i = 0; i < 6; ++i) {
    const auto& batch = dynamic_cast<const ImageBatch&>(*first[i]);
    images.insert(images.end(), batch.images.begin(), batch.images.end());
  }
  EXPECT_FALSE(std::ranges::is_sorted(images));
  std::ranges::sort(images);
  EXPECT_EQ(images.size(), 96u);
  EXPECT_EQ(std::ranges::adjacent_find(images), images.end());
  EXPECT_NE(dynamic_cast<const ImageBatch&>(*task->batches(6, {})->next()).images,
            dynamic_cast<const ImageBatch&>(*first[0]).images);
}

TEST_F(ImageTraining, PixelsAreNormalizedByTheTrainingSet) {
  ImageJob wanted = job("out");
  wanted.task.augment = {};
  const std::unique_ptr<Task> task = task_of(wanted);
  const auto stream = task->batches(1, {});
  double sum = 0, squares = 0, count = 0;
  for (int i = 0; i < 6; ++i) {
    const std::unique_ptr<Batch> batch = stream->next();
    for (const float x : dynamic_cast<const ImageBatch&>(*batch).pixels.values()) {
      sum += static_cast<double>(x);
      squares += static_cast<double>(x) * static_cast<double>(x);
      ++count;
    }
  }
  EXPECT_EQ(count, 96 * kSide * kSide);
  EXPECT_NEAR(sum / count, 0, 1e-5);
  EXPECT_NEAR(squares / count, 1, 1e-5);
}

TEST_F(ImageTraining, MixupMixesImagesAndLosses) {
  ImageJob plain = job("out"), mixed = job("out");
  for (ImageJob* one : {&plain, &mixed}) {
    one->shape.dropout = 0;
    one->task.augment = {};
  }
  mixed.task.mixup = 0.7f;
  const std::unique_ptr<Task> task = task_of(mixed);
  const auto own = task->batches(5, {})->next(), other = task_of(plain)->batches(5, {})->next();
  const auto& batch = dynamic_cast<const ImageBatch&>(*own);
  const auto& whole = dynamic_cast<const ImageBatch&>(*other);
  ASSERT_EQ(batch.images, whole.images);
  ASSERT_EQ(batch.weights.size(), 16u);
  constexpr size_t kPixels = size_t{kSide} * kSide;
  for (size_t i = 0; i < 16; ++i) {
    const size_t partner = (i + 1) % 16;
    EXPECT_EQ(batch.other_labels[i], whole.labels[partner]);
    for (const size_t at : {size_t{0}, size_t{29}, kPixels - 1}) {
      const float x = whole.pixels.values()[i * kPixels + at],
                  y = whole.pixels.values()[partner * kPixels + at];
      EXPECT_FLOAT_EQ(batch.pixels.values()[i * kPixels + at],
                      batch.weights[i] * x + (1 - batch.weights[i]) * y);
    }
  }
  // The loss is the cross-entropy with the mixed, smoothed labels.
  task->initialise(2);
  nn::ForwardContext context;
  Tape tape;
  const BatchLoss loss = task->loss(batch, {.items = 32, .units = 32, .labels = 32}, context);
  const auto& model = dynamic_cast<const ImageTask&>(*task).model();
  nn::ForwardContext plain_context;
  const Variable logits = model.classifier_logits(model(batch.pixels, plain_context),
                                                  Offsets::uniform(16, model.config().tokens()));
  double expected = 0;
  for (size_t i = 0; i < 16; ++i) {
    const auto a = static_cast<double>(logits.value().values()[2 * i]);
    const auto b = static_cast<double>(logits.value().values()[2 * i + 1]);
    const double total = std::log(std::exp(a) + std::exp(b)), weight = static_cast<double>(batch.weights[i]);
    double first = 0;  // probability of class 0 in the label
    first += weight * (batch.labels[i] == 0 ? 1 : 0) + (1 - weight) * (batch.other_labels[i] == 0 ? 1 : 0);
    first = 0.9 * first + 0.05;
    expected -= first * (a - total) + (1 - first) * (b - total);
  }
  EXPECT_NEAR(loss.curves.at(0).sum, expected, 1e-4);
  EXPECT_EQ(loss.curves.at(0).count, 16);
  EXPECT_NEAR(static_cast<double>(loss.loss.value().item()), expected / 32, 1e-5);
}

TEST_F(ImageTraining, InterruptedAndResumedEndsInTheSameBits) {
  for (const float mixup : {0.0f, 0.5f}) {
    const std::string name = mixup > 0 ? "mixed" : "plain";
    SCOPED_TRACE(name);
    ImageJob whole = job("whole-" + name), part = job("part-" + name);
    whole.task.mixup = part.task.mixup = mixup;
    whole.task.patch_dropout = part.task.patch_dropout = mixup;
    Observer observer;
    run_job(whole, observer);
    for (const int64_t step : {3, 17, 31}) {
      Observer failing;
      failing.fail_after = step;
      EXPECT_THROW(run_job(part, failing), IoError);
    }
    Observer rest;
    EXPECT_EQ(run_job(part, rest).steps, 40);
    EXPECT_EQ(rest.start.resumed_from, 30);
    for (const char* file : {"model.safetensors", "config.json", "preprocessor_config.json", "log.jsonl"})
      EXPECT_EQ(read_file(whole.folder / file), read_file(part.folder / file)) << file;
  }
}

TEST_F(ImageTraining, ResumingNamesWhatDiffers) {
  ImageJob first = job("out");
  first.options.max_steps = 3;
  Observer observer;
  run_job(first, observer);
  const auto refused = [&](const std::function<void(ImageJob&)>& change) {
    ImageJob other = job("out");
    change(other);
    return message_of<UsageError>([&] { run_job(other, observer); });
  };
  EXPECT_NE(refused([](ImageJob& one) {
              one.task.augment.flip = 0.25f;
            }).find("resume: augment.flip: expected 0.5 as in the checkpoint, found 0.25"),
            std::string::npos);
  EXPECT_NE(refused([](ImageJob& one) { one.patch = 2; }).find("resume: model.patch: expected 4"),
            std::string::npos);
  EXPECT_NE(refused([](ImageJob& one) {
              std::swap(one.train, one.valid);
            }).find("data.fingerprint: the data are not those of the checkpoint"),
            std::string::npos);
}

TEST_F(ImageTraining, TheFolderHasTheSameLogits) {
  ImageJob wanted = job("out");
  wanted.options.max_steps = 10;
  wanted.options.validate_every = 10;
  wanted.options.optimizer.average_decay = 0;
  Observer observer;
  const TrainResult result = run_job(wanted, observer);
  EXPECT_TRUE(pipelines::check_proof(wanted.folder).good());

  const pipelines::ImageClassifier classifier(wanted.folder);
  EXPECT_EQ(classifier.model().config().channels, 1);
  EXPECT_EQ(classifier.model().config().labels, (std::vector<std::string>{"0", "1"}));
  const data::ImageSet set = data::read_images(wanted.valid, data::ImagePart::test);
  const ImageScores scores =
      score_images(classifier.model(), classifier.processor(), set, 7, nullptr).value();
  EXPECT_EQ(scores.images, 30);
  EXPECT_EQ(scores.accuracy, result.best.at("accuracy"));
  EXPECT_NEAR(scores.loss, result.best.at("loss"), 1e-6);
  int64_t right = 0, all = 0;
  for (size_t i = 0; i < 2; ++i) {
    for (size_t k = 0; k < 2; ++k) {
      all += scores.confusion[i][k];
      right += i == k ? scores.confusion[i][k] : 0;
    }
  }
  EXPECT_EQ(all, 30);
  EXPECT_EQ(static_cast<double>(right) / 30, scores.accuracy);

  // PNG files of the same images, through the pipeline.
  std::vector<std::string> paths;
  for (int64_t i = 0; i < 6; ++i) {
    paths.push_back(
        scratch_.write(concat("png/", i, ".png"), data::encode_png(data::to_image(set, i))).string());
  }
  const auto found = classifier(paths);
  Tensor pixels = Tensor::empty({6, 1, kSide, kSide});
  for (int64_t i = 0; i < 6; ++i)
    write_pixels(set.image(i), 1, classifier.processor(), pixels.data() + i * kSide * kSide);
  nn::ForwardContext context;
  const auto& model = classifier.model();
  const Variable logits =
      model.classifier_logits(model(pixels, context), Offsets::uniform(6, model.config().tokens()));
  for (size_t i = 0; i < 6; ++i) {
    const auto row = logits.value().values().subspan(2 * i, 2);
    const double first = 1 / (1 + std::exp(static_cast<double>(row[1]) - static_cast<double>(row[0])));
    ASSERT_TRUE(found[i].error.empty()) << found[i].error;
    const auto& likeliest = found[i].labels.front();
    EXPECT_EQ(likeliest.label, first > 0.5 ? "0" : "1");
    EXPECT_NEAR(static_cast<double>(likeliest.probability), std::max(first, 1 - first), 1e-6);
  }
}

TEST_F(ImageTraining, StartsFromAFolder) {
  ImageJob first = job("first");
  first.options.max_steps = 60;
  first.options.optimizer.average_decay = 0;
  Observer observer;
  const TrainResult trained = run_job(first, observer);
  const auto start_again = [&](const std::string& name) {
    ImageJob second = job(name);
    second.from = scratch_ / "first";
    second.use_preset("mini");
    second.patch = 7;
    second.options.max_steps = 4;
    second.options.validate_every = 2;
    second.options.schedule = {.warmup_steps = 0, .learning_rate = 1e-6f};
    second.complete({"model.from", "model.dropout", "model.attention_dropout", "train.max_steps"});
    return second;
  };
  const ImageJob second = start_again("second");
  const TrainResult next = run_job(second, observer);
  // The learning rate is almost 0, so that the scores remain those of the folder.
  EXPECT_EQ(next.best.at("accuracy"), trained.best.at("accuracy"));
  // The checkpoint records the folder's model and not the preset's.
  const Fields recorded = CheckpointFolder(second.folder / "checkpoints").load_latest().value().fields;
  for (const auto& [field, value] : {std::pair("model.layers", "2"),
                                     {"model.d_model", "16"},
                                     {"model.heads", "2"},
                                     {"model.d_ff", "32"},
                                     {"model.patch", "4"},
                                     {"model.dropout", "0"}})
    EXPECT_EQ(recorded.at(field), value) << field;
  EXPECT_NEAR(next.best.at("loss"), trained.best.at("loss"), 1e-3);
  EXPECT_EQ(read_file(second.folder / "preprocessor_config.json"),
            read_file(first.folder / "preprocessor_config.json"));
  EXPECT_TRUE(pipelines::check_proof(second.folder).good());

  // The folder may vanish after the start.
  ImageJob part = start_again("part");
  Observer failing;
  failing.fail_after = 3;
  EXPECT_THROW(run_job(part, failing), IoError);
  ImageJob other = part;
  other.from = scratch_ / "second";
  EXPECT_NE(message_of<UsageError>([&] { run_job(other, observer); }).find("resume: model.from: expected"),
            std::string::npos);
  std::filesystem::remove_all(scratch_ / "first");
  Observer rest;
  EXPECT_EQ(run_job(part, rest).steps, 4);
  EXPECT_EQ(read_file(part.folder / "model.safetensors"), read_file(second.folder / "model.safetensors"));

  // Sizes and preprocessing are the folder's; rates and stochastic depth are the run's.
  ImageJob own = job("own");
  own.from = second.folder;
  for (const char* field : {"model.layers", "model.patch", "data.resize", "data.channels"}) {
    const std::string found = message_of<UsageError>([&] { own.complete({field}); });
    EXPECT_NE(found.find(concat(field, ": expected none with model.from")), std::string::npos) << found;
  }
  own.shape.drop_path = 0.25f;
  own.options.max_epochs = 40;
  own.complete({"model.from", "model.drop_path"});
  EXPECT_EQ(own.options.max_epochs, 3) << "without a limit of the user's";
  EXPECT_EQ(own.shape.dropout, 0) << "the folder's";
  own.reading.resize = 30;  // has no effect
  EXPECT_NO_THROW(own.check());
  const std::unique_ptr<Task> task = task_of(own);
  EXPECT_EQ(dynamic_cast<const ImageTask&>(*task).model().config().encoder.drop_path, 0.25f);
}

TEST_F(ImageTraining, HoldsOutValidationImages) {
  ImageJob wanted = job("out");
  wanted.valid = {};
  wanted.reading.hold_out = 20;
  const std::unique_ptr<Task> task = task_of(wanted);
  EXPECT_EQ(task->info().train_items, 76);
  EXPECT_EQ(task->info().valid_items, 20);
  wanted.reading.hold_out = 96;
  EXPECT_NE(message_of<UsageError>([&] {
              task_of(wanted);
            }).find("data.hold_out: expected fewer than the 96 training images, found 96"),
            std::string::npos);
}

TEST_F(ImageTraining, RefusesBadSettingsByName) {
  const auto refused = [&](const std::function<void(ImageJob&)>& change) {
    ImageJob one = job("out");
    change(one);
    return message_of<UsageError>([&] { one.check(); });
  };
  const auto expect = [&](const std::function<void(ImageJob&)>& change, const std::string& part) {
    const std::string message = refused(change);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect([](ImageJob& one) { one.train = {}; }, "data.train: expected a folder or a file");
  expect([](ImageJob& one) { one.task.batch_images = 0; }, "train.batch_images: expected 1 or more, found 0");
  expect([](ImageJob& one) { one.task.mixup = -1; }, "augment.mixup: expected 0 to 100, found -1");
  expect([](ImageJob& one) { one.task.patch_dropout = 1; },
         "train.patch_dropout: expected 0 to below 1, found 1");
  expect([](ImageJob& one) { one.patch = 0; }, "model.patch: expected 1 to");
  expect([](ImageJob& one) { one.reading.resize = 30; },
         "data.resize: expected a multiple of the patches' 4, found 30");
  expect([](ImageJob& one) { one.reading.channels = 2; }, "data.channels: expected 0, 1 or 3, found 2");
  expect([](ImageJob& one) { one.reading.hold_out = 5; }, "data.hold_out: expected 0 with validation");
  expect(
      [](ImageJob& one) {
        one.valid = {};
        one.options.patience = 2;
      },
      "train.patience: expected 0 without validation images, found 2");
  ImageJob missing = job("out");
  missing.train.images = scratch_ / "nowhere";
  EXPECT_NE(message_of<IoError>([&] { missing.check(); }).find("nowhere: expected a file or a folder"),
            std::string::npos);
  ImageJob unknown = job("out");
  EXPECT_FALSE(unknown.set_field("model.key_heads", "2")) << "without meaning for a ViT";
  EXPECT_TRUE(unknown.set_field("augment.crop_fill", "reflect"));
  EXPECT_EQ(unknown.task.augment.crop_fill, data::CropFill::reflect);
}

TEST_F(ImageTraining, RefusesUnfitImagesByName) {
  const auto expect = [&](const std::function<void(ImageJob&)>& change,
                          const std::vector<std::string>& parts) {
    ImageJob one = job("out");
    change(one);
    std::string message;
    try {
      task_of(one);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      message = error.what();
    }
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  };
  scratch_.write("one-labels", idx_labels(96, std::string(96, '\3')));
  expect([&](ImageJob& one) { one.train.labels = scratch_ / "one-labels"; },
         {"train-images: expected images of two or more classes, found 96 images of the class '3' only"});
  scratch_.write("new-labels", idx_labels(30, std::string(29, '\1') + '\2'));
  expect([&](ImageJob& one) { one.valid.labels = scratch_ / "new-labels"; },
         {"new-labels: image 30: expected a label of 0 to 1, the known classes, found 2"});
  expect([](ImageJob& one) { one.patch = 3; }, {"model.patch: expected a divisor of the images' side, 8"});
  scratch_.write("wide-images", idx_images(2, 4, 6, std::string(48, '\5')));
  scratch_.write("wide-labels", idx_labels(2, std::string("\0\1", 2)));
  expect(
      [&](ImageJob& one) {
        one.train = {scratch_ / "wide-images", scratch_ / "wide-labels"};
      },
      {"wide-images: expected square images, 6 x 6 pixels, or a size to resize images to (data.resize), "
       "found "
       "4 x 6"});
  expect(
      [&](ImageJob& one) {
        one.valid = {scratch_ / "wide-images", scratch_ / "wide-labels"};
      },
      {"wide-images: expected the training images' size, 8 x 8 pixels", "found 4 x 6"});
  ImageJob resized = job("out");
  resized.train = resized.valid = {scratch_ / "wide-images", scratch_ / "wide-labels"};
  resized.reading.resize = 12;
  EXPECT_EQ(dynamic_cast<const ImageTask&>(*task_of(resized)).model().config().height, 12);
  scratch_.write("names", "cat\ncat\n");
  expect([&](ImageJob& one) { one.reading.label_names = scratch_ / "names"; },
         {"names:2: expected the name of another class, found 'cat' again"});
}

}  // namespace
}  // namespace qkv::train
