#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/models/translation_model.h"
#include "tests/train/character_run.h"
#include "tests/train/reverse_task.h"
#include "tests/train/same_run.h"

namespace qkv::train {
namespace {

using testing::expect_same_run;
using testing::expect_throw;
using testing::message_of;
using testing::Scratch;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

TranslationJob resumed(TranslationJob job) {
  job.existing = IfRunExists::resume;
  return job;
}

// Requests a stop after a step, or throws there like a killed process.
struct Interrupter : TrainObserver {
  int64_t stop_after = 0, fail_after = 0;
  std::atomic<bool> stop = false;
  void on_step(const StepReport& report) override {
    if (report.step == stop_after) stop = true;
    if (report.step == fail_after) throw std::runtime_error("killed");
  }
};

TEST(Resume, AfterALimitEndsInTheSameBits) {
  const Scratch scratch;
  const TranslationJob whole = small_job(scratch, "whole");
  train(whole);
  TranslationJob part = small_job(scratch, "part");
  part.options.max_steps = 3;
  EXPECT_EQ(train(part).steps, 3);
  part.options.max_steps = 6;
  EXPECT_EQ(train(resumed(part)).steps, 6);
  expect_same_run(whole.folder, part.folder);
}

// A run that ended between saving a checkpoint and removing an old one leaves it to the resumed run, which
// may have nothing else to do.
TEST(Resume, RemovesAnOldCheckpointThatWasLeft) {
  const Scratch scratch;
  const TranslationJob job = small_job(scratch, "run");
  train(job);
  const CheckpointFolder checkpoints(job.folder / "checkpoints");
  const auto kept = checkpoints.list();
  ASSERT_EQ(std::ssize(kept), job.options.keep_checkpoints);
  std::filesystem::copy(kept.back().second, checkpoints.path() / "step-000000001.safetensors");
  ASSERT_EQ(checkpoints.list().size(), kept.size() + 1);
  train(resumed(job));
  EXPECT_EQ(checkpoints.list(), kept);
}

TEST(Resume, ObserversFlushTheirFilesBeforeACheckpointExists) {
  const Scratch scratch;
  const TranslationJob job = small_job(scratch, "run");
  struct : TrainObserver {
    std::filesystem::path folder;
    std::vector<int64_t> announced, saved;
    void before_checkpoint(int64_t step) override {
      EXPECT_EQ(newest(), saved.empty() ? 0 : saved.back());
      announced.push_back(step);
    }
    void on_checkpoint(int64_t step) override {
      EXPECT_EQ(newest(), step);
      saved.push_back(step);
    }
    int64_t newest() const {
      int64_t step = 0;
      for (const auto& [one, path] : CheckpointFolder(folder).list()) step = std::max(step, one);
      return step;
    }
  } observer;
  observer.folder = job.folder / "checkpoints";
  run_job(job, observer);
  EXPECT_FALSE(observer.saved.empty());
  EXPECT_EQ(observer.announced, observer.saved);
}

TEST(Resume, AfterARequestEndsInTheSameBits) {
  const Scratch scratch;
  const TranslationJob whole = small_job(scratch, "whole");
  train(whole);
  const TranslationJob part = small_job(scratch, "part");
  // At step 4 a validation is due, which is postponed to the next part.
  for (const int64_t step : {1, 4, 5}) {
    Interrupter interrupter;
    interrupter.stop_after = step;
    const TrainResult result = run_job(resumed(part), interrupter, &interrupter.stop);
    EXPECT_EQ(result.reason, StopReason::requested);
    EXPECT_EQ(result.steps, step);
    EXPECT_NO_THROW(models::load_translation_model(part.folder));
  }
  EXPECT_EQ(train(resumed(part)).reason, StopReason::max_steps);
  expect_same_run(whole.folder, part.folder);
}

TEST(Resume, AfterAKillGoesOnFromTheLastCheckpointToTheSameBits) {
  const Scratch scratch;
  TranslationJob job = small_job(scratch, "whole");
  job.options.optimizer.average_decay = 0;
  job.options.average_last = 3;
  job.options.checkpoint_every = 3;
  job.options.validate_every = 2;
  job.options.max_steps = 9;
  const TranslationJob whole = job;
  train(whole);
  job.folder = scratch / "part";
  for (const int64_t step : {1, 5, 5, 8}) {
    Interrupter interrupter;
    interrupter.fail_after = step;
    EXPECT_THROW(run_job(resumed(job), interrupter), std::runtime_error);
    scratch.write("part/checkpoints/step-000000007.safetensors.partial-1", "half a file");
  }
  train(resumed(job));
  expect_same_run(whole.folder, job.folder);
  for (const auto& entry : std::filesystem::directory_iterator(job.folder / "checkpoints")) {
    if (entry.is_regular_file()) {
      EXPECT_EQ(entry.path().extension(), ".safetensors") << "left over";
    }
  }
}

TEST(Resume, PassesOverATruncatedCheckpointToTheSameBits) {
  const Scratch scratch;
  TranslationJob job = small_job(scratch, "whole");
  job.options.checkpoint_every = 1;
  const TranslationJob whole = job;
  train(whole);
  job.folder = scratch / "part";
  job.options.max_steps = 5;
  train(job);
  const auto newest = job.folder / "checkpoints/step-000000005.safetensors";
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) / 2);
  job.options.max_steps = 6;
  train(resumed(job));
  expect_same_run(whole.folder, job.folder);

  for (const auto& [step, path] : CheckpointFolder(job.folder / "checkpoints").list())
    std::filesystem::resize_file(path, 100);
  expect_throw<DataError>("expected a whole checkpoint, found none", [&] { train(resumed(job)); });
}

void expect_the_same_bits_for_one_to_four_threads(DType precision) {
  const Scratch scratch;
  const int before = threads();
  const auto train_with = [&](int count) {
    set_threads(count);
    TranslationJob job = small_job(scratch, concat(count, " threads"));
    // Wide enough for every kernel to use four threads.
    job.config.d_model = 128;
    job.config.heads = 4;
    job.config.d_ff = 256;
    job.task.batch_tokens = 600;
    job.options.max_steps = 10;
    job.options.validate_every = 5;
    job.options.precision = precision;
    train(job);
    set_threads(before);
    return job.folder;
  };
  const auto one = train_with(1);
  for (const int count : {2, 3, 4}) expect_same_run(one, train_with(count));
}

TEST(Training, TheSameBitsForOneToFourThreads) { expect_the_same_bits_for_one_to_four_threads(DType::f32); }

TEST(Training, TheSameBitsForOneToFourThreadsInMixedPrecision) {
  expect_the_same_bits_for_one_to_four_threads(DType::bf16);
}

TEST(Resume, InMixedPrecisionToTheSameBits) {
  const Scratch scratch;
  TranslationJob job = small_job(scratch, "f32");
  job.options.max_steps = 6;
  train(job);
  job.folder = scratch / "whole";
  job.options.precision = DType::bf16;
  train(job);
  const auto whole = job.folder;
  EXPECT_NE(read_file(scratch / "f32/model.safetensors"), read_file(whole / "model.safetensors"));
  job.folder = scratch / "part";
  job.options.max_steps = 4;
  train(job);
  job.options.max_steps = 6;
  TranslationJob other = resumed(job);
  other.options.precision = DType::f32;
  expect_throw<UsageError>("train.precision: expected bf16 as in the checkpoint, found f32",
                           [&] { train(other); });
  EXPECT_EQ(train(resumed(job)).steps, 6);
  expect_same_run(whole, job.folder);
}

TEST(Training, TheSameBitsWhereActivationsAreRecomputed) {
  for (const nn::NormPlacement norm : {nn::NormPlacement::post, nn::NormPlacement::pre}) {
    const Scratch scratch;
    TranslationJob job = small_job(scratch, "kept");
    job.config.encoder_layers = job.config.decoder_layers = 2;
    job.config.norm = norm;
    job.config.activation = norm == nn::NormPlacement::post ? Activation::relu : Activation::gelu_exact;
    job.config.activation_dropout = 0.1f;
    const auto kept = job.folder;
    train(job);
    job.folder = scratch / "recomputed";
    job.options.recompute = true;
    train(job);
    expect_same_run(kept, job.folder);
    // Part of a run may do so too.
    job.folder = scratch / "both";
    job.options.max_steps = 3;
    train(job);
    job.options.recompute = false;
    job.options.max_steps = 6;
    train(resumed(job));
    expect_same_run(kept, job.folder);
  }
}

// The averages of an older checkpoint need its older snapshots, which must not have been deleted.
TEST(Resume, PassesOverATruncatedCheckpointWhileAveragingToTheSameBits) {
  const Scratch scratch;
  TranslationJob job = small_job(scratch, "whole");
  job.options.optimizer.average_decay = 0;
  job.options.average_last = 3;
  job.options.validate_every = 1;
  job.options.max_steps = 9;
  train(job);
  const auto whole = job.folder;
  job.folder = scratch / "part";
  job.options.max_steps = 7;
  train(job);
  const auto newest = job.folder / "checkpoints/step-000000007.safetensors";
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) / 2);
  job.options.max_steps = 9;
  EXPECT_EQ(train(resumed(job)).steps, 9);
  expect_same_run(whole, job.folder);
}

TEST(Resume, NamesTheOptionThatContradicts) {
  const Scratch scratch;
  const TranslationJob job = small_job(scratch, "out");
  train(job);
  TranslationJob other = resumed(job);
  other.task.batch_tokens = 300;
  expect_throw<UsageError>("train.batch_tokens: expected 200 as in the checkpoint, found 300",
                           [&] { train(other); });
  other = resumed(job);
  other.config.dropout = 0.5f;
  expect_throw<UsageError>("model.dropout: expected 0.1 as in the checkpoint, found 0.5",
                           [&] { train(other); });
  other = resumed(job);
  other.train = write_reversals(scratch, "other", 120, 5);
  expect_throw<UsageError>("data.fingerprint: the data are not those of the checkpoint",
                           [&] { train(other); });
  other = resumed(job);
  other.options.checkpoint_every = 2;
  other.options.max_steps = 7;
  EXPECT_EQ(train(other).steps, 7);
}

// A setting that the version that wrote the checkpoint did not have.
TEST(Resume, ASettingThatTheCheckpointLacksMustBeOff) {
  struct Newer : CharacterTask {
    using CharacterTask::CharacterTask;
    std::vector<Field> fields() const override {
      std::vector<Field> all = CharacterTask::fields();
      all.push_back({"characters.new", value});
      return all;
    }
    std::string value;
  };
  const Scratch scratch;
  TrainOptions options = short_run();
  Quiet quiet;
  train_characters(scratch / "run", options, quiet);
  std::filesystem::copy(scratch / "run", scratch / "copy", std::filesystem::copy_options::recursive);
  std::filesystem::copy(scratch / "run", scratch / "other", std::filesystem::copy_options::recursive);
  options.max_steps += 1;
  const auto resume = [&](const std::string& value, const char* folder = "run") {
    auto task = std::make_unique<Newer>(nursery_rhyme(40), nursery_rhyme(4), CharacterOptions());
    task->value = value;
    return Trainer(std::move(task), options, scratch / folder, IfRunExists::resume).run(quiet).steps;
  };
  expect_throw<UsageError>("characters.new: expected none as in the checkpoint", [&] { resume("on"); });
  EXPECT_EQ(resume(""), options.max_steps);
  EXPECT_EQ(resume("false", "copy"), options.max_steps);
  EXPECT_EQ(resume("0", "other"), options.max_steps);
}

TEST(Training, LeavesAnEarlierRunAloneUnlessTold) {
  const Scratch scratch;
  TranslationJob job = small_job(scratch, "out");
  train(job);
  const std::string model = read_file(job.folder / "model.safetensors");
  expect_throw<UsageError>("holds a model or a training run already", [&] { train(job); });
  EXPECT_EQ(read_file(job.folder / "model.safetensors"), model);
  std::filesystem::remove_all(job.folder / "checkpoints");
  EXPECT_THROW(train(resumed(job)), UsageError) << "a model, but nothing to resume from";
  EXPECT_EQ(read_file(job.folder / "model.safetensors"), model);
  job.existing = IfRunExists::replace;
  job.options.seed = 12;
  EXPECT_EQ(train(job).steps, 6);
  EXPECT_NE(read_file(job.folder / "model.safetensors"), model);
}

// Puts a NaN into a weight after a step.
struct Poisoner : TrainObserver {
  const Trainer* trainer = nullptr;
  int64_t after = 0;
  std::string name;
  void on_step(const StepReport& report) override {
    if (report.step != after) return;
    trainer->task().visit([this](const std::string& own, const nn::Parameter& parameter) {
      if (own.find(name) == std::string::npos) return;
      Variable variable = parameter.variable;
      variable.mutable_value().data()[3] = std::numeric_limits<float>::quiet_NaN();
    });
  }
};

TEST(Training, ANaNStopsItNamingStepLayerAndTensor) {
  const Scratch scratch;
  TranslationJob job = small_job(scratch, "out");
  train(job);  // creates tokenizer and stores
  job.options.checkpoint_every = 2;
  const auto message = [&](int64_t after) {
    const auto tokenizer = text::TranslationTokenizer::load(job.folder);
    auto task = std::make_unique<TranslationTask>(
        TranslationTask::Inputs{.config = complete_config(job.config, tokenizer),
                                .options = job.task,
                                .tokenizer = tokenizer,
                                .train = data::TokenStore::open(job.folder / "cache/train.tokens")});
    Trainer trainer(std::move(task), job.options, job.folder, IfRunExists::replace);
    Poisoner poisoner;
    poisoner.trainer = &trainer;
    poisoner.after = after;
    poisoner.name = "decoder.layers.0.fc1.weight";
    return message_of<NumericError>([&] { trainer.run(poisoner); });
  };
  const std::string in_forward = message(3);
  for (const char* part : {"step 4: the loss is NaN", "decoder", "layers.0", "the weights of ",
                           "decoder.layers.0.fc1.weight are not finite", "the checkpoint of step 2 remains"})
    EXPECT_NE(in_forward.find(part), std::string::npos) << part << " in: " << in_forward;
  EXPECT_EQ(CheckpointFolder(job.folder / "checkpoints").load_latest()->state.steps, 2);
  EXPECT_NO_THROW(models::load_translation_model(job.folder));
  const std::string in_saving = message(4);
  for (const char* part : {"step 4: the weights are not finite", "fc1.weight", "step 2 remains"})
    EXPECT_NE(in_saving.find(part), std::string::npos) << part << " in: " << in_saving;
}

TEST(Training, TwoRunsDoNotWorkInOneFolder) {
  const Scratch scratch;
  const TranslationJob job = small_job(scratch, "out");
  train(job);
  TranslationJob again = job;
  again.existing = IfRunExists::resume;
  again.options.max_steps += 2;
  std::optional<FolderLock> other(job.folder);
  expect_throw<UsageError>("locked by another run", [&] { train(again); });
  EXPECT_EQ(CheckpointFolder(job.folder / "checkpoints").load_latest()->state.steps, job.options.max_steps);
  other.reset();
  EXPECT_EQ(train(again).steps, again.options.max_steps);
}

TEST(Training, FindsBadInputBeforeItBegins) {
  const Scratch scratch;
  const TranslationJob good = small_job(scratch, "out");
  TranslationJob job = good;
  job.train.target = scratch.write("short.target", "ba\nko\n");
  expect_throw<DataError>("found 120 in", [&] { train(job); });
  job = good;
  job.valid.source = scratch / "missing";
  expect_throw<IoError>("missing", [&] { train(job); });
  job = good;
  job.valid = {};
  job.options.patience = 2;
  expect_throw<UsageError>("patience", [&] { train(job); });
  job = good;
  job.train = {scratch.write("a", ""), scratch.write("b", "")};
  expect_throw<DataError>("empty file", [&] { train(job); });
  job = good;
  job.config.heads = 3;
  EXPECT_THROW(train(job), UsageError);
  EXPECT_FALSE(std::filesystem::exists(good.folder)) << "nothing was written yet";
  job = good;
  job.folder = scratch.write("file", "x") / "out";
  expect_throw<IoError>("file/out", [&] { train(job); });
}

}  // namespace
}  // namespace qkv::train
