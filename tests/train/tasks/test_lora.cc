// LoRA of the tasks that start from an encoder: adapters open on their base, and merge into it.

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/models/hub/copies.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/images/images.h"
#include "qkv/train/tasks/image/image.h"
#include "qkv/train/tasks/image/image_scores.h"
#include "tests/support/devices.h"
#include "tests/support/image_files.h"
#include "tests/train/bert_run.h"
#include "tests/train/embed_run.h"
#include "tests/train/killed.h"
#include "tests/train/label_run.h"

namespace qkv::train {
namespace {

using testing::expect_throw;
using testing::for_each_device;
using testing::Scratch;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

struct StepLosses : TrainObserver {
  std::vector<double> losses;
  void on_step(const StepReport& report) override { losses.push_back(report.loss); }
};

struct FirstLoss : TrainObserver {
  std::optional<double> loss;
  void on_step(const StepReport& report) override {
    if (!loss) loss = report.loss;
  }
};

TrainResult train_quietly(const Job& job) {
  TrainObserver quiet;
  return run_job(job, quiet);
}

// The same job, killed and resumed, gives the same adapter.
template <class JobType>
void expect_same_after_a_kill(JobType job, const std::filesystem::path& whole, int64_t step) {
  job.folder = whole.parent_path() / "part";
  job.existing = IfRunExists::resume;
  testing::run_killed(job, step);
  train_quietly(job);
  EXPECT_EQ(read_file(job.folder / "adapter_model.safetensors"),
            read_file(whole / "adapter_model.safetensors"));
}

TEST(Lora, OfImages) {
  const Scratch scratch;
  testing::write_bars(scratch, "train", 96, 8);
  testing::write_bars(scratch, "valid", 30, 8);
  ImageJob job;
  job.use_preset("mini");
  job.folder = scratch / "base";
  job.train = {scratch / "train-images", scratch / "train-labels"};
  job.valid = {scratch / "valid-images", scratch / "valid-labels"};
  job.shape = {.layers = 2, .d_model = 16, .heads = 2, .d_ff = 32, .dropout = 0, .attention_dropout = 0};
  job.task.batch_images = 16;
  job.task.augment = {.flip = 0.5f};
  job.options.optimizer.average_decay = 0;
  job.options.schedule = {.warmup_steps = 3, .learning_rate = 0.01f};
  job.options.max_steps = 2;
  train_quietly(job);  // a base that has hardly learnt

  job.from = scratch / "base";
  job.folder = scratch / "adapter";
  job.options.lora = {.rank = 4, .targets = "q_proj,v_proj,fc1,fc2"};
  job.options.max_steps = 120;
  job.options.validate_every = 40;
  job.options.checkpoint_every = 25;
  FirstLoss first;
  const TrainResult result = run_job(job, first);
  EXPECT_LT(result.train_loss.value(), 0.8 * first.loss.value());
  EXPECT_GT(result.best.at("accuracy"), 0.9);
  EXPECT_FALSE(std::filesystem::exists(job.folder / "model.safetensors"));

  models::merge_adapter(job.from, job.folder, scratch / "merged");
  const data::ImageSet set = data::read_images(job.valid, data::ImagePart::test);
  const auto scores_of = [&](const pipelines::ImageClassifier& classifier) {
    return score_images(classifier.model(), classifier.processor(), set, 7).value();
  };
  const ImageScores adapted = scores_of(pipelines::ImageClassifier(job.from, {}, {.adapter = job.folder})),
                    merged = scores_of(pipelines::ImageClassifier(scratch / "merged"));
  EXPECT_NEAR(adapted.loss, result.best.at("loss"), 1e-5);
  EXPECT_NEAR(merged.loss, adapted.loss, 1e-5);
  EXPECT_EQ(merged.accuracy, adapted.accuracy);
  EXPECT_GT(scores_of(pipelines::ImageClassifier(job.from)).loss, 1.2 * adapted.loss);
  expect_same_after_a_kill(job, job.folder, 60);
}

// The adapter's folder has the modules of sentence-transformers, which the base lacks.
TEST(Lora, OfSentenceEmbeddings) {
  const Scratch scratch;
  EmbedJob job = small_embed_job(scratch, "adapter");
  job.task.dropout = 0;
  job.task.drop_path = 0;
  job.task.pooling = pipelines::Pooling::max;
  job.options.optimizer.average_decay = 0;
  job.options.lora = {.rank = 4, .targets = "q_proj,v_proj,fc1,fc2"};
  job.options.max_steps = 120;
  job.options.validate_every = 40;
  job.options.checkpoint_every = 25;
  job.options.schedule.learning_rate = 0.02f;
  FirstLoss first;
  const TrainResult result = run_job(job, first);
  EXPECT_LT(result.best.at("loss"), 0.9 * first.loss.value());
  EXPECT_FALSE(std::filesystem::exists(job.folder / "model.safetensors"));
  EXPECT_EQ(read_file(job.folder / "adapter_model.safetensors").find("bert.encoder"), std::string::npos)
      << "names of a model without heads";

  models::merge_adapter(job.from, job.folder, scratch / "merged");
  const pipelines::TextEmbedder adapted(job.from, {.adapter = job.folder}), merged(scratch / "merged"),
      base(job.from);
  EXPECT_EQ(adapted.default_options().vector.pooling, pipelines::Pooling::max);
  EXPECT_EQ(merged.default_options().vector.pooling, pipelines::Pooling::max);
  const std::vector<std::string> texts{"a red dog.", "the good man."};
  const auto x = adapted(texts, adapted.default_options()), y = merged(texts, merged.default_options()),
             z = base(texts, adapted.default_options());
  double moved = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    ASSERT_EQ(x[i].error, "");
    ASSERT_EQ(x[i].values.size(), y[i].values.size());
    for (size_t c = 0; c < x[i].values.size(); ++c) {
      EXPECT_NEAR(x[i].values[c], y[i].values[c], 1e-5);
      moved = std::max(moved, std::abs(double{x[i].values[c]} - double{z[i].values[c]}));
    }
  }
  EXPECT_GT(moved, 0.01);
  expect_same_after_a_kill(job, job.folder, 60);
}

// The frozen weights are on the device too, as stored.
TEST(Lora, OnEachDevice) {
  const Scratch scratch;
  EmbedJob job = small_embed_job(scratch, "adapter");
  job.options.lora = {.rank = 4, .targets = "q_proj,v_proj,fc1,fc2"};
  job.options.max_steps = 6;
  job.options.log_every = 1;
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    SCOPED_TRACE(name_of(dtype));
    job.options.lora.dtype = dtype;
    std::vector<double> expected;
    for_each_device([&](Device device) {
      job.options.device = device;
      job.existing = IfRunExists::replace;
      StepLosses run;
      const TrainResult result = run_job(job, run);
      ASSERT_EQ(run.losses.size(), 6U);
      if (expected.empty()) expected = run.losses;
      for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(run.losses[i], expected[i], 1e-3) << "step " << i + 1;
      const pipelines::TextEmbedder adapted(job.from, {.adapter = job.folder, .device = device});
      const auto texts = std::vector<std::string>{"a red dog."};
      EXPECT_EQ(adapted(texts, adapted.default_options())[0].error, "");
    });
    EXPECT_GT(std::abs(expected.back() - expected.front()), 0.1) << "no weight has changed";
  }
}

PretrainBertJob continued(const Scratch& scratch, const std::string& folder) {
  PretrainBertJob job = topic_job(scratch / "data", scratch / folder);
  job.from = scratch / "base";
  job.vocabulary.tokenizer.clear();
  job.options.optimizer.average_decay = 0;
  job.options.accumulate = 1;
  job.complete({"schedule.learning_rate", "schedule.warmup_steps", "train.max_length"});
  return job;
}

TEST(PretrainBertFrom, GoesOnFromAFolder) {
  const Scratch scratch;
  PretrainBertJob base = topic_job(scratch / "data", scratch / "base");
  base.options.max_steps = 80;
  base.options.validate_every = 80;
  const TrainResult before = train_quietly(base);
  PretrainBertJob job = continued(scratch, "next");
  EXPECT_EQ(job.shape.d_model, 32);
  job.options.schedule.learning_rate = 1e-6f;
  job.options.max_steps = 11;
  job.options.validate_every = 11;
  // The learning rate is almost 0, so that the scores remain those of the folder.
  EXPECT_NEAR(train_quietly(job).best.at("loss"), before.best.at("loss"), 1e-3);
  EXPECT_EQ(read_file(job.folder / "vocab.txt"), read_file(base.folder / "vocab.txt"));
  EXPECT_FALSE(job.folder == base.folder);

  // The folder may vanish after the start.
  PretrainBertJob part = job;
  part.folder = scratch / "part";
  part.options.checkpoint_every = 4;
  testing::run_killed(part, 6);
  std::filesystem::rename(scratch / "base", scratch / "moved");
  train_quietly(part);
  EXPECT_EQ(read_file(part.folder / "model.safetensors"), read_file(job.folder / "model.safetensors"));

  const auto refused = [&](const std::filesystem::path& from, const std::string& message) {
    PretrainBertJob other = topic_job(scratch / "data", scratch / "other");
    other.from = from;
    expect_throw<UsageError>(message, [&] { other.complete({}); });
  };
  refused(testing::golden_model("gpt2"), "expected the folder of a BERT, found \"gpt2\"");
  refused(testing::golden_model("roberta_masked"), "expected the folder of a BERT, found \"roberta\"");
  expect_throw<UsageError>("vocabulary.size: expected none with model.from",
                           [&] { part.complete({"vocabulary.size"}); });
}

TEST(Lora, OfPretraining) {
  const Scratch scratch;
  PretrainBertJob base = topic_job(scratch / "data", scratch / "base");
  base.options.max_steps = 11;
  const TrainResult before = train_quietly(base);
  PretrainBertJob job = continued(scratch, "adapter");
  job.options.lora = {.rank = 4, .targets = "q_proj,v_proj,fc1,fc2"};
  job.options.max_steps = 100;
  job.options.validate_every = 25;
  job.options.schedule.learning_rate = 0.01f;
  const TrainResult result = train_quietly(job);
  EXPECT_LT(result.best.at("masked_loss"), before.best.at("masked_loss"));
  models::merge_adapter(job.from, job.folder, scratch / "merged");
  const std::vector<std::string> texts{"c0 c1 [MASK] c3 c5 c0 c1 c2"};
  const auto adapted = pipelines::MaskFiller(job.from, {.adapter = job.folder})(texts),
             merged = pipelines::MaskFiller(scratch / "merged")(texts);
  ASSERT_EQ(adapted[0].error, "");
  ASSERT_EQ(adapted[0].masks.size(), 1u);
  EXPECT_EQ(adapted[0].masks[0][0].token, merged[0].masks[0][0].token);
  EXPECT_NEAR(adapted[0].masks[0][0].probability, merged[0].masks[0][0].probability, 1e-5);
  expect_same_after_a_kill(job, job.folder, 30);
}

}  // namespace
}  // namespace qkv::train
