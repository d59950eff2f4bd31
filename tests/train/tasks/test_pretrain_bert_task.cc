// Pretraining of BERT: it learns, resumes to the same bits, and refuses other settings and data.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/models/shape.h"
#include "qkv/nn/named_parameters.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/train/tasks/pretrain_bert/bert_start.h"
#include "tests/support/events.h"
#include "tests/support/scratch.h"
#include "tests/train/bert_run.h"
#include "tests/train/killed.h"
#include "tests/train/recorder.h"
#include "tests/train/same_run.h"

namespace qkv::train {
namespace {

using testing::expect_contains;
using testing::expect_throw;
using testing::message_of;
using testing::Scratch;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

PretrainBertJob learning_job(const Scratch& scratch) {
  PretrainBertJob job = topic_job(scratch / "data", scratch / "out");
  job.shape.dropout = job.shape.attention_dropout = 0;
  job.options.accumulate = 1;
  job.options.max_steps = 500;
  job.options.validate_every = 200;
  job.task.batch_tokens = 512;
  return job;
}

TEST(PretrainBertTask, LearnsBothTasks) {
  const Scratch scratch;
  const PretrainBertJob job = learning_job(scratch);
  Recorder observer;
  const TrainResult result = run_job(job, observer);
  EXPECT_EQ(observer.start.task.items, "pairs");
  EXPECT_EQ(result.best_by.name, "loss");
  // The topic is learned: six of 48 words are left, whose entropy is 1.79.
  EXPECT_LT(result.best.at("masked_loss"), 2.1);
  EXPECT_GT(result.best.at("masked_accuracy"), 0.1);
  EXPECT_GT(result.best.at("nsp_accuracy"), 0.85);  // another document may have the same topic
  EXPECT_NEAR(result.best.at("loss"), result.best.at("masked_loss") + result.best.at("nsp_loss"), 1e-9);
  ASSERT_EQ(observer.last.curves.size(), 3u);
  EXPECT_NEAR(observer.last.curve("loss").value(),
              observer.last.curve("masked_loss").value() + observer.last.curve("nsp_loss").value(), 0.02);

  // The folder opens as a model for masks, with its proof.
  EXPECT_TRUE(pipelines::check_proof(job.folder).good());
  const pipelines::MaskFiller filler(job.folder);
  EXPECT_TRUE(filler.model().config().next_sentence);
  EXPECT_EQ(nlohmann::json::parse(read_file(job.folder / "config.json"))["architectures"][0],
            "BertForPreTraining");
  const auto filled = filler(std::vector<std::string>{"c0 c1 [MASK] c3 c5 c0 c1 c2"});
  ASSERT_EQ(filled[0].error, "");
  EXPECT_EQ(filled[0].masks[0][0].token[0], 'c');
}

// Only the first epoch has the batches of the warm-up, which know no next sentences.
TEST(PretrainBertTask, WarmsUpOnce) {
  const Scratch scratch;
  PretrainBertJob job = topic_job(scratch / "data", scratch / "out");
  job.options.schedule.kind = ScheduleKind::linear;
  job.options.accumulate = 1;
  job.options.max_steps = 0;
  job.options.max_epochs = 3;
  job.options.log_every = 1;
  struct Curves : TrainObserver {
    int64_t alone = 0, both = 0;
    void on_step(const StepReport& report) override {
      if (!report.curve("nsp_loss")) {
        ++alone;
        EXPECT_EQ(both, 0);
        EXPECT_EQ(report.curve("loss"), report.curve("masked_loss"));
      } else {
        ++both;
      }
    }
  } curves;
  const TrainResult result = run_job(job, curves);
  EXPECT_EQ(curves.alone, 5 + 4);
  EXPECT_EQ(curves.alone + curves.both, result.steps);
  // Epochs differ by a batch or two.
  EXPECT_NEAR(static_cast<double>(result.schedule_steps), static_cast<double>(result.steps), 4);
}

TEST(PretrainBertTask, StartsFromFrequenciesAndPositionsThatKnowDistances) {
  models::TextEncoderConfig config =
      models::bert({.layers = 1, .d_model = 64, .heads = 2, .d_ff = 128, .max_positions = 40}, 20);
  config.masked_language = true;
  const models::TextEncoder model(config);
  data::SentenceDocuments text;
  text.ids = {7, 7, 7, 5, 7, 9};
  text.sentence_begins = text.document_begins = {0, 6};
  initialise_bert(model, text, 3);
  std::map<std::string, Tensor> values;
  for (const auto& [name, parameter] : nn::parameters_of(model)) values[name] = parameter.variable.value();

  const auto bias = values.at("masked_language.bias").values();
  double sum = 0;
  for (const float value : bias) sum += std::exp(static_cast<double>(value));
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_NEAR(bias[7], std::log(5.0 / 26), 1e-6);  // four times, and once more as every token
  EXPECT_NEAR(bias[5], std::log(2.0 / 26), 1e-6);
  EXPECT_NEAR(bias[0], std::log(1.0 / 26), 1e-6);

  // The product of two positions' vectors depends on their distance alone, and falls at first.
  const Tensor positions = values.at("embed_positions.weight");
  const auto product = [&](int64_t i, int64_t j) {
    double result = 0;
    for (int64_t k = 0; k < 64; ++k)
      result += static_cast<double>(positions.at(i, k)) * static_cast<double>(positions.at(j, k));
    return result;
  };
  EXPECT_NEAR(product(3, 3), 64 * 0.02 * 0.02, 1e-6);
  for (const int64_t i : {0, 10, 30}) {
    EXPECT_NEAR(product(i, i + 4), product(5, 9), 1e-7);
    EXPECT_GT(product(i, i), product(i, i + 1));
    EXPECT_GT(product(i, i + 1), product(i, i + 3));
  }

  for (const char* name : {"encoder.layers.0.fc1.weight", "masked_language.dense.weight"}) {
    double squares = 0;
    for (const float value : values.at(name).values()) squares += static_cast<double>(value) * value;
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.at(name).numel())), 0.02, 0.001) << name;
  }
}

TEST(PretrainBertTask, StartRefusesOtherModelsAndTexts) {
  models::TextEncoderConfig config =
      models::bert({.layers = 1, .d_model = 8, .heads = 2, .d_ff = 8, .max_positions = 4}, 20);
  data::SentenceDocuments text;
  text.ids = {7, 20};
  text.sentence_begins = text.document_begins = {0, 2};
  expect_throw<UsageError>("masked-language head",
                           [&] { initialise_bert(models::TextEncoder(config), text, 1); });
  config.masked_language = true;
  for (const int32_t id : {20, -1}) {
    text.ids.back() = id;
    expect_throw<DataError>(concat("found ", id),
                            [&] { initialise_bert(models::TextEncoder(config), text, 1); });
  }
}

TEST(PretrainBertTask, WithoutNextSentences) {
  const Scratch scratch;
  PretrainBertJob job = learning_job(scratch);
  job.task.no_nsp = true;
  job.task.masking.whole_words = true;
  job.options.max_steps = 200;
  Recorder observer;
  const TrainResult result = run_job(job, observer);
  EXPECT_EQ(observer.start.task.items, "segments");
  EXPECT_LT(result.best.at("masked_loss"), 2.1);
  EXPECT_EQ(result.best.at("loss"), result.best.at("masked_loss"));
  EXPECT_FALSE(result.best.contains("nsp_accuracy"));
  EXPECT_EQ(observer.last.curves.size(), 2u);
  const pipelines::MaskFiller filler(job.folder);
  EXPECT_FALSE(filler.model().config().pooler);
  EXPECT_EQ(nlohmann::json::parse(read_file(job.folder / "config.json"))["architectures"][0],
            "BertForMaskedLM");

  // A single document is enough.
  job.folder = scratch / "other";
  job.train = scratch.write("one.txt", topic_text(1, 30));
  job.options.max_steps = 11;  // more than the warm-up
  EXPECT_TRUE(std::isfinite(run_job(job, observer).train_loss.value()));
}

// The loss of a step is the mean over all its masked tokens plus the mean over all its pairs, whatever the
// division into batches.
TEST(PretrainBertTask, LossOfAccumulatedBatchesIsTheMeanOverTheStep) {
  const Scratch scratch;
  PretrainBertJob job = learning_job(scratch);
  job.task.length_warmup = {};
  Recorder observer;
  std::filesystem::create_directories(job.folder);
  const std::unique_ptr<Task> task = job.make_task(false, observer, nullptr);
  task->initialise(5);
  const auto stream = task->batches(1, {});
  const auto first = stream->next(), second = stream->next();
  ASSERT_NE(first->size.labels, second->size.labels);
  BatchSize step = first->size;
  step += second->size;
  double total = 0, masked = 0, next = 0, curve = 0;
  for (const Batch* batch : {first.get(), second.get()}) {
    nn::ForwardContext context;
    const BatchLoss part = task->loss(*batch, step, context);
    total += static_cast<double>(part.loss.value().item());
    const std::vector<CurveShare> curves = read(part.curves);
    curve += curves.at(0).sum;
    masked += curves.at(1).sum;
    next += curves.at(2).sum;
    EXPECT_EQ(curves[1].count, static_cast<double>(batch->size.labels));
    EXPECT_EQ(curves[2].count, static_cast<double>(batch->size.items));
  }
  const double expected = masked / static_cast<double>(step.labels) + next / static_cast<double>(step.items);
  EXPECT_GT(expected, 3);
  EXPECT_NEAR(total, expected, 1e-4);
  EXPECT_NEAR(curve / static_cast<double>(step.labels), expected, 1e-9);
}

TEST(PretrainBertTask, EvaluationsAreTheSameWhateverTheBatch) {
  const Scratch scratch;
  PretrainBertJob job = learning_job(scratch);
  Recorder observer;
  std::filesystem::create_directories(job.folder);
  std::optional<Evaluation> first;
  for (const int64_t batch_tokens : {64, 4096}) {
    job.task.batch_tokens = batch_tokens;
    const std::unique_ptr<Task> task = job.make_task(false, observer, nullptr);
    task->initialise(5);
    const Evaluation found = task->evaluate({}).value();
    EXPECT_NEAR(found.metrics.at("masked_loss"), std::log(53.0), 0.5) << "an untrained model";
    if (first) {
      EXPECT_NEAR(found.loss, first->loss, 1e-6);
      EXPECT_EQ(found.metrics.at("masked_accuracy"), first->metrics.at("masked_accuracy"));
      EXPECT_EQ(found.metrics.at("nsp_accuracy"), first->metrics.at("nsp_accuracy"));
    }
    first = found;
  }
}

TEST(PretrainBertTask, KilledAndResumedEndsInTheSameBits) {
  const Scratch scratch;
  Recorder observer;
  run_job(topic_job(scratch / "data", scratch / "whole"), observer);
  for (const int64_t step : {3, 11, 17})
    testing::run_killed(topic_job(scratch / "data", scratch / "part"), step);
  Recorder rest;
  EXPECT_EQ(run_job(topic_job(scratch / "data", scratch / "part"), rest).steps, 24);
  EXPECT_GE(rest.start.resumed_from, 15);
  testing::expect_same_run(scratch / "whole", scratch / "part");
  testing::expect_same_files(scratch / "whole", scratch / "part",
                             {"config.json", "tokenizer_config.json", "vocab.txt", "log.jsonl", "curve.svg"});
  EXPECT_EQ(testing::event_points(scratch / "whole/runs"), testing::event_points(scratch / "part/runs"));
}

TEST(PretrainBertTask, ARunBelongsToItsSettingsAndItsData) {
  const Scratch scratch;
  PretrainBertJob job = topic_job(scratch / "data", scratch / "out");
  job.options.max_steps = 2;
  Recorder observer;
  run_job(job, observer);
  const auto refused = [&](const auto& change) {
    PretrainBertJob other = job;
    change(other);
    return message_of<UsageError>([&] { run_job(other, observer); });
  };
  expect_contains(refused([](PretrainBertJob& other) { other.task.masking.whole_words = true; }),
                  "resume: train.whole_words: expected false as in the checkpoint, found true");
  expect_contains(refused([](PretrainBertJob& other) { other.task.length_warmup.stages.pop_back(); }),
                  "train.length_warmup: expected 8:5,16:4 as in the checkpoint, found 8:5");
  expect_contains(refused([](PretrainBertJob& other) { other.task.segments.short_share = 0.5f; }),
                  "train.short_share: expected 0.1");
  expect_contains(refused([](PretrainBertJob& other) { other.vocabulary.size = 70; }), "vocabulary.size");
  expect_contains(
      refused([&](PretrainBertJob& other) { other.train = scratch.write("more.txt", topic_text(33, 20)); }),
      "data.fingerprint: the data are not those of the checkpoint");
}

TEST(PretrainBertJob, SettingsAreCheckedFirst) {
  const Scratch scratch;
  const auto refused = [&](const auto& change) {
    PretrainBertJob job = topic_job(scratch / "data", scratch / "out");
    change(job);
    try {
      Recorder observer;
      run_job(job, observer);
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists(scratch / "out")) << "nothing was to be written";
      return std::string(error.what());
    }
    return std::string("no error");
  };
  using Job = PretrainBertJob;
  expect_contains(refused([](Job& job) { job.train.clear(); }), "data.train: expected a file");
  expect_contains(refused([](Job& job) { job.task.segments.max_length = 64; }),
                  "model.max_positions: expected at least train.max_length = 64, found 32");
  expect_contains(refused([](Job& job) { job.task.masking.rate = 1.5f; }), "train.mask_rate");
  expect_contains(refused([](Job& job) { job.shape.heads = 5; }), "model.heads: expected a divisor");
  expect_contains(
      refused([](Job& job) { job.task.length_warmup.stages = {{.max_length = 32, .batches = 5}}; }),
      "train.length_warmup: expected growing lengths, here 3 to 31");
  expect_contains(refused([](Job& job) {
                    job.task.length_warmup = {};
                    job.task.segments.pairs_from = 16;
                  }),
                  "train.nsp_from: expected 0 without train.length_warmup, found 16");
  expect_contains(refused([](Job& job) { job.task.segments.pairs_from = 17; }),
                  "train.nsp_from: expected a length of train.length_warmup, at most 16, found 17");
  expect_contains(refused([&](Job& job) { job.train = scratch.write("flat", "a0 a1\nb0 b1\n"); }),
                  "next-sentence prediction needs two or more documents with blank lines between them");
}

TEST(PretrainBertJob, AFolderIsTrainedForThreeEpochs) {
  PretrainBertJob job;
  job.from = QKV_TEST_DATA "/models/golden/bert_base";
  job.options.max_epochs = 40;
  job.complete({"model.from", "train.max_minutes"});
  EXPECT_EQ(job.options.max_epochs, 40);
  job.complete({"model.from"});
  EXPECT_EQ(job.options.max_epochs, 3);
}

// Text outside the vocabulary and long sentences: trained on, and counted; nothing but unknown text is an
// error.
TEST(PretrainBertJob, TextOutsideTheVocabulary) {
  const Scratch scratch;
  PretrainBertJob job = topic_job(scratch / "data", scratch / "out");
  job.options.max_steps = 2;
  std::string text = "日本 語 x y z\n日本\n\n";
  for (int i = 0; i < 40; ++i) text += "a0 b1 ";
  job.train = scratch.write("foreign.txt", text + "\n\n" + topic_text(3, 5));
  Recorder observer;
  EXPECT_TRUE(std::isfinite(run_job(job, observer).train_loss.value()));
  job.folder = scratch / "other";
  job.train = scratch.write("unknown.txt", "日本\n語\n\n日本\n");
  expect_throw<DataError>("tokens are unknown", [&] { run_job(job, observer); });
}

}  // namespace
}  // namespace qkv::train
