// Runs that are refused: what their folder held before remains, and nothing is added to it.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "tests/train/label_run.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;
using testing::expect_throw;
using testing::golden_model;
using testing::message_of;
using testing::Scratch;

class RefusedRuns : public ::testing::Test {
 protected:
  RefusedRuns() {
    train_ = scratch_.write("train.txt", testing::colour_texts(24));
    valid_ = scratch_.write("valid.txt", testing::colour_texts(8));
  }

  // A run of some steps, whose tokenizer is trained.
  ClassifyJob small(const std::string& folder) const {
    ClassifyJob job;
    testing::set_small(job);
    job.folder = scratch_ / folder;
    job.train = train_;
    job.valid = valid_;
    job.encoder.tokenizer.clear();
    job.encoder.vocabulary_size = 60;
    job.encoder.shape.dropout = 0;
    job.options.optimizer.average_decay = 0;
    job.options.max_steps = 2;
    return job;
  }
  // From a folder of BERT's kind, all of whose settings are set.
  ClassifyJob tuning(const std::string& folder, const fs::path& from) const {
    ClassifyJob job = small(folder);
    job.encoder.from = from;
    job.complete({"train.max_steps", "schedule.learning_rate"});
    return job;
  }
  static TrainResult run(const Job& job) {
    TrainObserver quiet;
    return run_job(job, quiet);
  }
  static std::map<std::string, std::string> files_of(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file())
        files[entry.path().lexically_relative(folder).string()] = read_file(entry.path());
    }
    return files;
  }
  // The job must be refused with this message, in a new folder, which then does not exist, and in place of
  // the model in "old", which stays.
  template <class JobType>
  void expect_refused(JobType job, const std::string& message) {
    SCOPED_TRACE(message);
    const auto before = files_of(scratch_ / "old");
    job.folder = scratch_ / "new";
    const std::string found = message_of<UsageError>([&] { run(job); });
    EXPECT_NE(found.find(message), std::string::npos) << found;
    EXPECT_FALSE(fs::exists(job.folder));
    job.folder = scratch_ / "old";
    job.existing = IfRunExists::replace;
    EXPECT_EQ(message_of<UsageError>([&] { run(job); }).substr(0, 20), found.substr(0, 20));
    EXPECT_TRUE(files_of(scratch_ / "old") == before) << "the old model has changed";
  }

  Scratch scratch_;
  fs::path train_, valid_;
};

TEST_F(RefusedRuns, LeaveTheOldModel) {
  run(small("old"));
  ClassifyJob job = small("");
  job.encoder.vocabulary_size = 50;  // another tokenizer
  job.options.lora.rank = 2;
  expect_refused(job, "lora.rank: expected a run that starts from a model folder (model.from)");
  job.options.lora.rank = 0;
  job.options.best_by = "colour";
  expect_refused(job, "train.best_by: expected one of loss, accuracy");
  job.options.best_by = "";
  job.options.schedule = {.kind = ScheduleKind::linear, .warmup_steps = 1'000'000, .learning_rate = 0.01f};
  job.options.max_steps = 0;
  job.options.max_minutes = 0.05;  // measured after all else
  expect_refused(job, "schedule.warmup_steps: expected fewer than the run's");
  ClassifyJob adapted = tuning("", golden_model("bert_base"));
  adapted.options.lora = {.rank = 2, .targets = "q_prj"};
  expect_refused(adapted, "lora.targets: expected projections of the model's layers");
  // The old run can still be resumed.
  ClassifyJob old = small("old");
  old.existing = IfRunExists::resume;
  old.options.max_steps = 3;
  EXPECT_EQ(run(old).steps, 3);
}

// An earlier run that has no checkpoint yet keeps its settings.
TEST_F(RefusedRuns, LeaveTheSettingsOfAnEarlierRun) {
  RunFolder(scratch_ / "run", IfRunExists::refuse).record({{"task", "classify"}});
  const std::string before = read_file(scratch_ / "run/run.json");
  ClassifyJob job = small("run");
  job.existing = IfRunExists::replace;
  job.options.best_by = "colour";
  message_of<UsageError>([&] { run(job); });
  EXPECT_EQ(read_file(scratch_ / "run/run.json"), before);
}

TEST_F(RefusedRuns, InTheFolderThatTheyStartFrom) {
  run(small("model"));
  fs::create_directory_symlink(scratch_ / "model", scratch_ / "link");
  const auto before = files_of(scratch_ / "model");
  for (const auto& [from, out] :
       {std::pair("model", "model"), {"link", "model"}, {"model", "link"}, {"model", "link/../model"}}) {
    for (const int64_t rank : {0, 2}) {
      for (const IfRunExists existing : {IfRunExists::replace, IfRunExists::refuse}) {
        ClassifyJob job = tuning(out, scratch_ / from);
        job.options.lora.rank = rank;
        job.existing = existing;
        expect_throw<UsageError>("expected another folder than that of the run", [&] { run(job); });
      }
    }
  }
  EXPECT_TRUE(files_of(scratch_ / "model") == before);
}

// Labels are compared before anything is tokenized, with a start folder too.
TEST_F(RefusedRuns, ForUnknownLabelsOfAFineTuning) {
  ClassifyJob job = tuning("out", golden_model("bert_base"));
  job.valid = scratch_.write("other.txt", "good\tthe dog\nugly\tthe man\n");
  expect_throw<DataError>("other.txt:2: expected one of the model's labels", [&] { job.check(); });
}

// Frozen layers and lower learning rates are those of the updates too.
TEST_F(RefusedRuns, NotForFrozenLayersUnderLora) {
  const auto adapter = [&](const std::string& folder, int64_t frozen, float decay) {
    ClassifyJob job = tuning(folder, golden_model("bert_base"));
    job.task.frozen_layers = frozen;
    job.task.layer_decay = decay;
    job.options.lora.rank = 2;
    job.options.max_steps = 4;
    job.options.schedule.learning_rate = 0.05f;
    run(job);
    return job.folder / "adapter_model.safetensors";
  };
  const io::SafetensorsFile file(adapter("frozen", 1, 1));
  int zero = 0, changed = 0;
  for (const std::string& name : file.names()) {
    if (name.find("lora_B") == std::string::npos) continue;
    double sum = 0;
    const Tensor values = file.tensor(name);
    for (const float value : values.values()) sum += std::abs(value);
    const bool lowest = name.find(".layer.0.") != std::string::npos;
    EXPECT_EQ(sum == 0, lowest) << name;
    (lowest ? zero : changed) += 1;
  }
  EXPECT_EQ(zero, 2) << "queries and values";
  EXPECT_EQ(changed, 2);
  EXPECT_NE(read_file(adapter("even", 0, 1)), read_file(adapter("decayed", 0, 0.5f)));
}

// The base model is named, not the data.
TEST_F(RefusedRuns, WithAnotherBaseUnderLora) {
  fs::copy(golden_model("bert_base"), scratch_ / "base");
  ClassifyJob job = tuning("adapter", scratch_ / "base");
  job.options.lora.rank = 2;
  run(job);
  std::string bytes = read_file(scratch_ / "base/model.safetensors");
  bytes[bytes.size() - 4] = static_cast<char>(bytes[bytes.size() - 4] ^ 1);
  write_file_atomically(scratch_ / "base/model.safetensors", bytes);
  job.existing = IfRunExists::resume;
  expect_throw<UsageError>("base.fingerprint: the base model is not that of the checkpoint",
                           [&] { run(job); });
}

}  // namespace
}  // namespace qkv::train
