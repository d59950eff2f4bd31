// Language models with experts: learning with the balancing loss, resuming, starting from a folder.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/hub/read_config.h"
#include "qkv/nn/named_parameters.h"
#include "qkv/train/tasks/lm/lm.h"
#include "tests/support/letters.h"
#include "tests/support/scratch.h"
#include "tests/train/recorder.h"
#include "tests/train/same_run.h"

namespace qkv::train {
namespace {

using testing::expect_same_files;
using testing::expect_throw;
using testing::Scratch;

class ExpertModelling : public ::testing::Test {
 protected:
  ExpertModelling() {
    scratch_.write("tokenizer/tokenizer.json", testing::letters_json("\n .abcdeghimnostu", '.'));
    scratch_.write("tokenizer/tokenizer_config.json", R"({"eos_token": ".", "unk_token": "<unk>"})");
    std::string text;
    for (int i = 0; i < 60; ++i)
      text += i % 2 == 0 ? "the cat sat on the mat.\n\n" : "the dog\ndug in the bog.\n\n";
    scratch_.write("train.txt", text);
  }

  LmJob job(const std::string& folder) const {
    LmJob result;
    result.folder = scratch_ / folder;
    result.existing = IfRunExists::resume;
    result.blocks = LmBlocks::llama;
    result.shape = {.layers = 2,
                    .d_model = 16,
                    .heads = 2,
                    .d_ff = 12,
                    .experts = 4,
                    .experts_per_token = 2,
                    .max_positions = 24,
                    .dropout = 0.1f,
                    .attention_dropout = 0};
    result.corpus.train = scratch_ / "train.txt";
    result.corpus.tokenizer = (scratch_ / "tokenizer").string();
    result.task.batch_tokens = 120;
    result.options.accumulate = 2;
    result.options.schedule = {.warmup_steps = 5, .learning_rate = 0.02f};
    result.options.max_steps = 30;
    result.options.validate_every = 10;
    result.options.checkpoint_every = 7;
    return result;
  }

  Scratch scratch_;
};

TEST_F(ExpertModelling, LearnsAndWritesAFolderOfMixtral) {
  LmJob run = job("run");
  run.shape.dropout = 0;
  run.options.accumulate = 1;
  run.options.max_steps = 120;
  run.options.validate_every = 60;
  Recorder observer;
  const TrainResult result = run_job(run, observer);
  EXPECT_GT(observer.losses.front(), 2.3);
  EXPECT_LT(result.best.at("loss"), 0.5);
  const auto config = nlohmann::json::parse(read_file(run.folder / "config.json"));
  EXPECT_EQ(config["architectures"][0], "MixtralForCausalLM");
  EXPECT_EQ(config["num_local_experts"], 4);
  EXPECT_EQ(config["num_experts_per_tok"], 2);
}

// The coefficient's loss is part of the objective, and lower where it has been minimised.
TEST_F(ExpertModelling, BalancesItsExperts) {
  const auto balance = [&](const std::string& name, float coefficient) {
    LmJob run = job(name);
    run.task.balance = coefficient;
    run.options.accumulate = 1;
    run.options.max_steps = coefficient > 0 ? 25 : 1;
    Recorder observer;
    run_job(run, observer);
    return observer.last.curve("balance");
  };
  EXPECT_FALSE(balance("without", 0).has_value());
  const double little = balance("little", 1e-6f).value(), much = balance("much", 1).value();
  EXPECT_NEAR(much, 2, 0.05) << "experts a token";
  EXPECT_GT(little, much + 0.02);
}

TEST_F(ExpertModelling, InterruptedAndResumedEndsInTheSameBits) {
  Recorder observer;
  run_job(job("whole"), observer);
  Recorder part;
  part.fail_after = 17;
  EXPECT_THROW(run_job(job("part"), part), IoError);
  LmJob rest = job("part");
  rest.options.recompute = true;  // the same numbers
  run_job(rest, observer);
  EXPECT_GT(observer.start.resumed_from, 10);
  expect_same_files(scratch_ / "whole", scratch_ / "part", {"model.safetensors", "log.jsonl"});

  LmJob still = job("still");
  still.from = scratch_ / "whole";
  still.complete({"model.from", "schedule.learning_rate", "train.max_steps"});
  still.options.schedule.learning_rate = 1e-30f;
  still.options.max_steps = 2;
  Recorder again;
  run_job(still, again);
  EXPECT_EQ(models::family_of(still.folder), "mixtral");
  EXPECT_EQ(still.shape.experts, 4);
  const auto weights = [](const std::filesystem::path& folder) {
    return nn::count_parameters(*models::load_language_model(folder));
  };
  EXPECT_EQ(weights(still.folder), weights(still.from));
}

TEST_F(ExpertModelling, OtherBlocksAndNumbersAreRefusedByName) {
  LmJob run = job("refused");
  run.blocks = LmBlocks::gpt2;
  expect_throw<UsageError>("model.experts: expected 0 in the blocks of GPT-2, found 4", [&] { run.check(); });
  run = job("refused");
  run.shape.experts_per_token = 5;
  expect_throw<UsageError>("model.experts_per_token: expected 1 to 4, found 5", [&] { run.check(); });
  run.task.balance = -1;
  expect_throw<UsageError>("train.balance", [&] { run.check(); });
}

// An adapter has no place for updates of experts whose weights share a tensor: not found out when it is
// saved.
TEST_F(ExpertModelling, RefusesAdaptersOfExpertsInOneTensorBeforeTraining) {
  for (const char* const base : {"gpt_oss", "granitemoe"}) {
    const std::filesystem::path from = scratch_ / base;
    models::LanguageModelConfig config =
        models::read_language_model_config(std::filesystem::path(QKV_TEST_DATA) / "models/golden" / base);
    config.vocabulary = 300;  // as the tokenizer requires
    const models::LanguageModel model(config);
    nn::initialise(model, /*seed=*/1);
    models::save_language_model(from, model, base);
    for (const char* const file : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy(scratch_ / "tokenizer" / file, from / file);
    LmJob lm = job(concat(base, " adapter"));
    lm.from = from;
    lm.shape = {};
    lm.corpus.tokenizer = LmJob().corpus.tokenizer;
    lm.options.optimizer.average_decay = 0;
    lm.options.lora = {.rank = 2, .targets = "q_proj,fc1"};
    std::filesystem::create_directory(lm.folder);
    write_file_atomically(lm.folder / "model.safetensors", "an older model");
    TrainObserver quiet;
    expect_throw<UsageError>("decoder.layers.0.experts.0.fc1: expected a weight with a tensor of its own",
                             [&] { run_job(lm, quiet); });
    EXPECT_EQ(read_file(lm.folder / "model.safetensors"), "an older model");
  }
}

}  // namespace
}  // namespace qkv::train
