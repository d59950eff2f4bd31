#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkv/models/translation_model.h"
#include "qkv/pipelines/translate.h"
#include "tests/train/reverse_task.h"

namespace qkv::train {
namespace {

using testing::Scratch;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

TEST(Learning, ReversesWordsItHasNotSeenInThisOrder) {
  const Scratch scratch;
  TranslationJob job = small_job(scratch, "out");
  job.train = write_reversals(scratch, "train", 2000, 1);
  job.config = {.d_model = 32,
                .encoder_layers = 1,
                .decoder_layers = 1,
                .heads = 4,
                .d_ff = 64,
                .dropout = 0,
                .embedding_dropout = 0};
  job.task.batch_tokens = 800;
  job.options.accumulate = 1;
  job.task.label_smoothing = 0;
  job.options.optimizer.average_decay = 0.99f;
  job.options.schedule = {.warmup_steps = 50, .learning_rate = 0.01f};
  job.options.max_steps = 500;
  job.options.validate_every = 100;
  job.options.best_by = "bleu";

  struct Curve : TrainObserver {
    std::vector<double> losses;
    std::vector<ValidationReport> validations;
    void on_step(const StepReport& report) override { losses.push_back(report.loss); }
    void on_validation(const ValidationReport& report) override { validations.push_back(report); }
  } curve;
  const TrainResult result = run_job(job, curve);
  EXPECT_EQ(result.reason, StopReason::max_steps);
  ASSERT_EQ(curve.losses.size(), 500u);
  EXPECT_GT(curve.losses.front(), 1.5);
  EXPECT_LT(result.train_loss.value(), 0.5);
  // A single batch's loss fluctuates with rounding, so the bound applies to the mean of several.
  EXPECT_LT(std::accumulate(curve.losses.end() - 25, curve.losses.end(), 0.0) / 25, 0.1);
  ASSERT_EQ(curve.validations.size(), 5u);
  const ValidationReport& last = curve.validations.back();
  EXPECT_LT(last.evaluation.loss, 0.1);
  EXPECT_NEAR(last.evaluation.metrics.at("perplexity"), std::exp(last.evaluation.loss), 1e-9);
  EXPECT_GT(last.evaluation.metrics.at("bleu"), 0.9);
  EXPECT_LE(last.evaluation.metrics.at("bleu"), 1);
  double best = 0;
  for (const ValidationReport& one : curve.validations)
    best = std::max(best, one.evaluation.metrics.at("bleu"));
  EXPECT_EQ(result.best.at("bleu"), best);
  EXPECT_EQ(result.best_by.name, "bleu");

  const pipelines::Translator translator(job.folder);
  const std::vector<std::string> sources{"ba ko mi", "zo te"};
  const auto translations = translator(sources, translator.default_options());
  EXPECT_EQ(translations[0].text, "mi ko ba");
  EXPECT_EQ(translations[1].text, "te zo");
}

// Positions applied in attention are trained, saved and loaded with the model.
TEST(Learning, ReversesWordsWithPositionsByDistance) {
  for (const auto positions : {nn::PositionKind::relative, nn::PositionKind::alibi}) {
    const Scratch scratch;
    TranslationJob job = small_job(scratch, "out");
    job.train = write_reversals(scratch, "train", 2000, 1);
    job.valid = {};
    job.config = {.d_model = 32,
                  .encoder_layers = 1,
                  .decoder_layers = 1,
                  .heads = 4,
                  .d_ff = 64,
                  .positions = positions,
                  .dropout = 0,
                  .embedding_dropout = 0};
    job.task.batch_tokens = 800;
    job.options.accumulate = 1;
    job.task.label_smoothing = 0;
    job.options.optimizer.average_decay = 0;
    job.options.schedule = {.warmup_steps = 50, .learning_rate = 0.01f};
    job.options.max_steps = 500;
    struct Curve : TrainObserver {
      std::vector<double> losses;
      void on_step(const StepReport& report) override { losses.push_back(report.loss); }
    } curve;
    run_job(job, curve);
    ASSERT_EQ(curve.losses.size(), 500u);
    EXPECT_GT(curve.losses.front(), 1.5);
    EXPECT_LT(std::accumulate(curve.losses.end() - 25, curve.losses.end(), 0.0) / 25, 0.1);
    const pipelines::Translator translator(job.folder);
    EXPECT_EQ(translator.model().config.positions, positions);
    const std::vector<std::string> sources{"ba ko mi", "zo te"};
    const auto translations = translator(sources, translator.default_options());
    EXPECT_EQ(translations[0].text, "mi ko ba");
    EXPECT_EQ(translations[1].text, "te zo");
  }
}

TEST(Learning, StopsWhereValidationNoLongerImproves) {
  const Scratch scratch;
  TranslationJob job = small_job(scratch, "out");
  job.options.schedule.learning_rate = 1e-30f;  // nothing changes, so nothing improves
  job.options.max_steps = 100;
  job.options.validate_every = 2;
  job.options.patience = 3;
  const TrainResult result = train(job);
  EXPECT_EQ(result.reason, StopReason::no_improvement);
  EXPECT_EQ(result.steps, 8) << "one best validation and three that are not";
  EXPECT_EQ(result.best_step, 2);
}

TEST(Learning, StopsAfterEpochs) {
  const Scratch scratch;
  TranslationJob job = small_job(scratch, "out");
  job.options.max_steps = 0;
  job.options.max_epochs = 2;
  job.options.accumulate = 1;
  job.options.validate_every = 0;
  const TrainResult result = train(job);
  EXPECT_EQ(result.reason, StopReason::max_epochs);
  EXPECT_EQ(result.epochs, 2);
  ASSERT_FALSE(result.validations.empty());
  EXPECT_EQ(result.validations.back().step, result.steps);
}

TEST(Learning, AveragesTheLastValidationsWeights) {
  const Scratch scratch;
  TranslationJob job = small_job(scratch, "out");
  job.options.optimizer.average_decay = 0;
  job.options.average_last = 2;
  job.options.validate_every = 2;
  job.options.keep_checkpoints = 10;
  const TrainResult result = train(job);
  ASSERT_EQ(result.best_step, 6) << "a falling loss";
  const io::SafetensorsFile found(job.folder / "model.safetensors");
  const io::SafetensorsFile four(job.folder / "checkpoints/step-000000004.safetensors");
  const io::SafetensorsFile six(job.folder / "checkpoints/step-000000006.safetensors");
  int64_t checked = 0;
  for (const std::string& name : found.names()) {
    if (!four.contains("weights/" + name)) continue;
    const Tensor a = four.tensor("weights/" + name), b = six.tensor("weights/" + name);
    const Tensor mean = found.tensor(name);
    for (int64_t i = 0; i < mean.numel(); ++i, ++checked)
      ASSERT_FLOAT_EQ(mean.data()[i], (a.data()[i] + b.data()[i]) / 2) << name;
  }
  EXPECT_GT(checked, 1000);
}

TEST(Learning, SeparateVocabularies) {
  const Scratch scratch;
  TranslationJob job = small_job(scratch, "out");
  job.vocabulary.separate = true;
  EXPECT_THROW(train(job), UsageError) << "three-way tying";
  job.config.tying = models::Tying::two_way;
  EXPECT_EQ(train(job).steps, 6);
  EXPECT_NO_THROW(models::load_translation_model(job.folder));
}

}  // namespace
}  // namespace qkv::train
