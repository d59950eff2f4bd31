// Image classification: the start, learning, resuming, exported folders.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/pipelines/images/images.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/train/tasks/image/image.h"
#include "qkv/train/tasks/image/image_scores.h"
#include "qkv/train/tasks/image/image_start.h"
#include "tests/support/image_files.h"
#include "tests/support/scratch.h"
#include "tests/train/image_run.h"

namespace qkv::train {
namespace {

using namespace qkv::testing;  // NOLINT(google-build-using-namespace)

// At the start, positions are as strong as patches of independent pixels, and those of near patches are
// alike.
TEST(ImageStart, PositionsOfNearPatchesAreAlike) {
  models::ImageEncoderConfig config{.channels = 1, .height = 28, .width = 28, .patch = 4, .distilled = true};
  config.encoder = {
      .layers = nn::alike(1, {.d_model = 96, .heads = 3, .d_ff = 192, .norm = nn::NormPlacement::pre})};
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
  Recorder observer;
  const TrainResult result = run_job(wanted, observer);
  EXPECT_EQ(observer.start.task.units, "images");
  EXPECT_EQ(observer.start.task.train_items, 96);
  EXPECT_EQ(observer.start.task.valid_items, 30);
  // Two classes: the first loss is near ln 2, the last near the smoothed optimum, 0.199.
  EXPECT_NEAR(observer.losses.front(), std::log(2.0), 0.15);
  EXPECT_LT(observer.losses.back(), 0.25);
  EXPECT_EQ(result.best_by.name, "accuracy");
  EXPECT_EQ(result.best.at("accuracy"), 1);
  EXPECT_FALSE(result.best.contains("top5_accuracy")) << "two classes are always among five";
}

TEST_F(ImageTraining, LearnsFromMixedImages) {
  ImageJob wanted = job("out");
  wanted.options.max_steps = 200;
  wanted.task.mixup = 0.4f;
  Recorder observer;
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
  Recorder observer;
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

TEST_F(ImageTraining, InterruptedAndResumedEndsInTheSameBits) {
  for (const float mixup : {0.0f, 0.5f}) {
    const std::string name = mixup > 0 ? "mixed" : "plain";
    SCOPED_TRACE(name);
    ImageJob whole = job("whole-" + name), part = job("part-" + name);
    whole.task.mixup = part.task.mixup = mixup;
    whole.task.patch_dropout = part.task.patch_dropout = mixup;
    Recorder observer;
    run_job(whole, observer);
    for (const int64_t step : {3, 17, 31}) {
      Recorder failing;
      failing.fail_after = step;
      EXPECT_THROW(run_job(part, failing), IoError);
    }
    Recorder rest;
    EXPECT_EQ(run_job(part, rest).steps, 40);
    EXPECT_EQ(rest.start.resumed_from, 30);
    for (const char* file : {"model.safetensors", "config.json", "preprocessor_config.json", "log.jsonl"})
      EXPECT_EQ(read_file(whole.folder / file), read_file(part.folder / file)) << file;
  }
}

TEST_F(ImageTraining, ResumingNamesWhatDiffers) {
  ImageJob first = job("out");
  first.options.max_steps = 3;
  Recorder observer;
  run_job(first, observer);
  const auto refused = [&](const std::function<void(ImageJob&)>& change) {
    ImageJob other = job("out");
    change(other);
    return message_of<UsageError>([&] { run_job(other, observer); });
  };
  expect_contains(refused([](ImageJob& one) { one.task.augment.flip = 0.25f; }),
                  "resume: augment.flip: expected 0.5 as in the checkpoint, found 0.25");
  expect_contains(refused([](ImageJob& one) { one.patch = 2; }), "resume: model.patch: expected 4");
  expect_contains(refused([](ImageJob& one) { std::swap(one.train, one.valid); }),
                  "data.fingerprint: the data are not those of the checkpoint");
}

TEST_F(ImageTraining, TheFolderHasTheSameLogits) {
  ImageJob wanted = job("out");
  wanted.options.max_steps = 10;
  wanted.options.validate_every = 10;
  wanted.options.optimizer.average_decay = 0;
  Recorder observer;
  const TrainResult result = run_job(wanted, observer);
  EXPECT_TRUE(pipelines::check_proof(wanted.folder).good());

  const pipelines::ImageClassifier classifier(wanted.folder);
  EXPECT_EQ(classifier.model().config().channels, 1);
  EXPECT_EQ(classifier.model().config().labels, (std::vector<std::string>{"0", "1"}));
  const data::ImageSet set = data::read_images(wanted.valid, data::ImagePart::test);
  const ImageScores scores = score_images(classifier.model(), classifier.processor(), set, 7).value();
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
  Tensor pixels = Tensor::empty({6, 1, kImageSide, kImageSide});
  for (int64_t i = 0; i < 6; ++i)
    write_pixels(set.image(i), 1, classifier.processor(), pixels.data() + i * kImageSide * kImageSide);
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
  Recorder observer;
  const TrainResult trained = run_job(first, observer);
  const auto start_again = [&](const std::string& name) {
    ImageJob second = job(name);
    second.from = scratch_ / "first";
    second.use_preset("mini");
    second.patch = 7;
    second.options.max_steps = 4;
    second.options.validate_every = 2;
    second.options.schedule = {.warmup_steps = 0, .learning_rate = 1e-6f};
    second.complete({"model.from", "model.dropout", "model.attention_dropout", "train.max_steps",
                     "train.validate_every"});
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
  Recorder failing;
  failing.fail_after = 3;
  EXPECT_THROW(run_job(part, failing), IoError);
  ImageJob other = part;
  other.from = scratch_ / "second";
  expect_throw<UsageError>("resume: model.from: expected", [&] { run_job(other, observer); });
  std::filesystem::remove_all(scratch_ / "first");
  Recorder rest;
  EXPECT_EQ(run_job(part, rest).steps, 4);
  EXPECT_EQ(read_file(part.folder / "model.safetensors"), read_file(second.folder / "model.safetensors"));

  // Sizes and preprocessing are the folder's; rates and stochastic depth are the run's.
  ImageJob own = job("own");
  own.from = second.folder;
  for (const char* field : {"model.layers", "model.patch", "data.resize", "data.channels"}) {
    expect_throw<UsageError>(concat(field, ": expected none with model.from"),
                             [&] { own.complete({field}); });
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

}  // namespace
}  // namespace qkv::train
