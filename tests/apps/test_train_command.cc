// qkv train, run as by a user: interruptions, resuming, options, messages.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class TrainCommand : public ::testing::Test {
 protected:
  TrainCommand() { std::filesystem::create_directories(scratch_ / "corpus"); }

  std::vector<std::string> training(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> all = small_training(corpus_, path(out));
    all.insert(all.end(), {"--validate-every", "2", "--json"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  json run(const std::vector<std::string>& arguments) const {
    const Outcome outcome = run_qkv(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? json::parse(outcome.out) : json();
  }
  json resume(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> all{"train", "--resume", path(out), "--quiet", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  std::string path(const std::string& name) const { return (scratch_ / name).string(); }
  std::string model(const std::string& out) const { return read_file(scratch_ / out / "model.safetensors"); }

  Scratch scratch_;
  data::CorpusFiles corpus_ = write_numbers(scratch_.path(), 99);
};

// The checkpoint stores every option exactly: floats, the model's and Adam's epsilon, the files.
TEST_F(TrainCommand, ResumesWithoutAnyOptionToTheSameBits) {
  const std::vector<std::string> options{
      "--dropout", "0.123456789",         "--set",        "adam.epsilon=3e-9",
      "--set",     "model.epsilon=1e-05", "--bleu-every", "0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), options.begin(), options.end());
    return more;
  };
  run(training("whole", with({"--max-steps", "6"})));
  run(training("part", with({"--max-steps", "3"})));
  const json resumed = resume("part", {"--max-steps", "6"});
  EXPECT_EQ(resumed["steps"], 6);
  EXPECT_EQ(model("part"), model("whole"));
  EXPECT_EQ(read_file(scratch_ / "part/config.json"), read_file(scratch_ / "whole/config.json"));
  EXPECT_EQ(json::parse(read_file(scratch_ / "part/config.json"))["model_type"], "marian");
  // Repeating some options with the task's name has no effect.
  run(training("other", with({"--max-steps", "3"})));
  run({"train", "translation", "--resume", "--out", path("other"), "--max-steps", "6", "--quiet", "--json",
       "--dropout", "0.123456789"});
  EXPECT_EQ(model("other"), model("whole"));
}

TEST_F(TrainCommand, ResumingNamesTheOptionThatContradicts) {
  run(training("out", {"--max-steps", "2"}));
  const auto refuse = [&](const std::vector<std::string>& more, const std::vector<std::string>& parts) {
    std::vector<std::string> all{"train",     "translation", "--resume", "--out",
                                 path("out"), "--max-steps", "4"};
    all.insert(all.end(), more.begin(), more.end());
    expect_failure(run_qkv(all), 2, parts);
  };
  refuse({"--vocab-size", "50"}, {"--resume: --vocab-size: expected 60 as in the checkpoint, found 50"});
  refuse({"--vocab-kind", "bpe"}, {"--vocab-kind: expected unigram as in the checkpoint, found bpe"});
  refuse({"--skip-bad-utf8"}, {"--skip-bad-utf8: expected false as in the checkpoint, found true"});
  refuse({"--batch-tokens", "700"}, {"--batch-tokens: expected 600 as in the checkpoint, found 700"});
  refuse({"--set", "adam.epsilon=1e-8"}, {"adam.epsilon: expected 1e-09 as in the checkpoint, found 1e-08"});
  refuse({"--src", corpus_.target.string()}, {"data.fingerprint"});
}

// Targets under four tokens have BLEU 0: the loss then selects the best model.
TEST_F(TrainCommand, EqualBleuIsDecidedByTheLoss) {
  const json result =
      run(training("out", {"--max-steps", "8", "--learning-rate", "0.01", "--warmup-steps", "1"}));
  EXPECT_EQ(result["validation"]["bleu"], 0);
  EXPECT_EQ(result["best_step"], 8);
  EXPECT_EQ(result["best"]["by"], "bleu");
  EXPECT_EQ(result["best"]["loss"], result["validation"]["loss"]);
  EXPECT_GT(result["validation"]["perplexity"], 1);
  // Without BLEU, losses are compared with losses.
  const json resumed = resume("out", {"--max-steps", "16", "--bleu-every", "0"});
  EXPECT_EQ(resumed["best_step"], 16);
  EXPECT_FALSE(resumed["validation"].contains("bleu"));
  EXPECT_LT(resumed["best"]["loss"], result["best"]["loss"]);
}

TEST_F(TrainCommand, SpeaksOfItsOwnOptions) {
  const auto failing = [&](const std::vector<std::string>& more, const std::vector<std::string>& parts) {
    expect_failure(run_qkv(training("out", more)), 2, parts);
  };
  failing({"--set", "batch_tokens=0"}, {"--batch-tokens: expected 1 or more, found 0"});
  failing({"--accumulate", "two"}, {"--accumulate: expected a whole number, found 'two'"});
  failing({"--dropout", "1.5"}, {"--dropout", "1.5"});
  failing({"--learning-rate", "-1"}, {"--learning-rate: expected more than 0, found -1"});
  failing({"--set", "epsilon=1e-5"}, {"--set epsilon", "model.epsilon, adam.epsilon"});
  failing({"--set", "colour=red"}, {"model.d_model", "train.batch_tokens", "\"colour\""});
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "out")) << "nothing was to be written";
  expect_failure(run_qkv({"train"}), 2, {"expected a task (translation) or --resume DIR"});
  expect_failure(run_qkv({"train", "translation", "--out", path("out")}), 2, {"--src: expected"});
  expect_failure(run_qkv({"train", "--resume", path("nowhere")}), 2, {"nowhere", "found no checkpoint"});
  run(training("out", {"--max-steps", "1", "--set", "d_ff=48"}));
  expect_failure(run_qkv(training("out", {"--max-steps", "1"})), 2,
                 {"--resume continues it, --overwrite starts"});
}

TEST_F(TrainCommand, HelpSaysTypeDefaultAndWhatZeroMeans) {
  const std::string help = run_qkv({"train", "translation", "--help"}).out;
  for (const char* part :
       {"--batch-tokens TOKENS=4096", "--warmup-steps STEPS=1000", "--seed N=1",
        "--checkpoint-minutes MINUTES=10", "--label-smoothing SHARE=0.1", "0: after each epoch",
        "--preset tiny|small|base|big=small", "--vocab-size N=8000"})
    EXPECT_NE(help.find(part), std::string::npos) << part << " in:\n" << help;
}

}  // namespace
}  // namespace qkv::testing
