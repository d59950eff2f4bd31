// qkv train embed and qkv evaluate embed, run as by a user.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/run.h"
#include "tests/train/embed_run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;
using train::testing_task::matching_pairs;
using train::testing_task::scored_pairs;

class EmbedTraining : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (scratch_ / name).string(); }
  std::vector<std::string> training(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> all{"train",           "embed",
                                 "--from",          QKV_TEST_DATA "/models/golden/bert_base",
                                 "--train",         pairs_.string(),
                                 "--valid",         pairs_.string(),
                                 "--out",           path(out),
                                 "--batch-pairs",   "16",
                                 "--warmup-steps",  "3",
                                 "--learning-rate", "0.01",
                                 "--json",          "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static json run(const std::vector<std::string>& arguments) {
    const Outcome outcome = run_qkv(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? json::parse(outcome.out) : json();
  }

  Scratch scratch_;
  std::filesystem::path pairs_ = scratch_.write("pairs.tsv", scored_pairs());
};

TEST_F(EmbedTraining, GivesAFolderOfSentenceTransformers) {
  const json result = run(training("out", {"--max-steps", "60", "--validate-every", "20", "--dropout", "0"}));
  EXPECT_EQ(result["best"]["by"], "spearman");
  EXPECT_GT(result["best"]["spearman"], 0.7);
  EXPECT_EQ(result["schedule_steps"], 60);
  const json tested = run({"evaluate", "embed", path("out"), "--test", pairs_.string(), "--json"});
  EXPECT_NEAR(tested["spearman"].get<double>(), result["best"]["spearman"].get<double>(), 1e-3);
  EXPECT_NEAR(tested["pearson"].get<double>(), result["best"]["pearson"].get<double>(), 1e-5);
  EXPECT_EQ(tested["pairs"], 144);
  const Outcome text = run_qkv({"evaluate", "embed", path("out"), "--test", pairs_.string()});
  EXPECT_TRUE(text.out.starts_with("spearman  ")) << text.out;

  const json modules = json::parse(read_file(scratch_ / "out/modules.json"));
  EXPECT_EQ(modules.size(), 3u);
  EXPECT_EQ(modules[1]["path"], "1_Pooling");
  EXPECT_EQ(json::parse(read_file(scratch_ / "out/1_Pooling/config.json"))["pooling_mode_mean_tokens"], true);
  std::istringstream vector(run_qkv({"embed", path("out")}, {.input = "a red dog\n"}).out);
  int numbers = 0;
  for (float x = 0; vector >> x;) ++numbers;
  EXPECT_EQ(numbers, 8);
  EXPECT_EQ(run_qkv({"self-test", path("out")}).status, 0);
}

// Neither the limit nor the warm-up is given: both fit the data.
TEST_F(EmbedTraining, AFewPairsNeedNoOption) {
  const std::vector<std::string> all{
      "train",   "embed",         "--from",        QKV_TEST_DATA "/models/golden/bert_base",
      "--train", pairs_.string(), "--batch-pairs", "16",
      "--json",  "--quiet",       "--out",         path("few")};
  const json result = run(all);
  EXPECT_EQ(result["epochs"], 3);
  EXPECT_EQ(result["schedule_steps"], result["steps"]);
  const auto steps = result["steps"].get<int64_t>();
  EXPECT_LT(steps, 100) << "the default of --warmup-steps";
  std::vector<std::string> given = all;
  given.back() = path("given");
  given.insert(given.end(), {"--warmup-steps", "100"});
  expect_failure(run_qkv(given), 2,
                 {concat("--warmup-steps: expected fewer than the run's ", steps,
                         " steps, found 100; give fewer warm-up steps or more epochs")});
}

TEST_F(EmbedTraining, KilledAndResumedEndsInTheSameBits) {
  std::vector<std::string> options{"--max-steps",        "300", "--validate-every", "100",
                                   "--checkpoint-every", "10"};
  run(training("whole", options));
  std::string command = "timeout -s KILL 0.4";
  command += " " + quoted(QKV_PROGRAM);
  for (const std::string& argument : training("part", options)) command += " " + quoted(argument);
  EXPECT_NE(std::system((command + " >/dev/null 2>&1").c_str()), -1);
  options.emplace_back("--resume");  // or starts, if it was killed before it had begun
  EXPECT_EQ(run(training("part", options))["steps"], 300);
  for (const char* name : {"model.safetensors", "config.json", "log.jsonl"})
    EXPECT_EQ(read_file(scratch_ / "part" / name), read_file(scratch_ / "whole" / name)) << name;
}

TEST_F(EmbedTraining, PairsWithoutScores) {
  const std::string pairs = scratch_.write("matching.tsv", matching_pairs()).string();
  run({"train",          "embed",     "--from",          QKV_TEST_DATA "/models/golden/bert_masked",
       "--train",        pairs,       "--valid",         pairs,
       "--out",          path("out"), "--batch-pairs",   "12",
       "--warmup-steps", "3",         "--learning-rate", "0.01",
       "--dropout",      "0",         "--max-steps",     "120",
       "--json",         "--quiet"});
  const json tested = run({"evaluate", "embed", path("out"), "--test", pairs, "--json"});
  EXPECT_GT(tested["accuracy"], 0.5);
  EXPECT_EQ(tested["pairs"], 12);
}

TEST_F(EmbedTraining, SpeaksOfItsOwnOptions) {
  const auto failing = [&](const std::vector<std::string>& more, int status,
                           const std::vector<std::string>& parts) {
    expect_failure(run_qkv(training("out", more)), status, parts);
  };
  failing({"--temperature", "0"}, 2, {"--temperature: expected more than 0, found 0"});
  failing({"--set", "train.batch_pairs=0"}, 2, {"--batch-pairs: expected 1 or more, found 0"});
  const std::string bad = scratch_.write("bad.tsv", "1\ta\tb\nhigh\ta\tb\n").string();
  expect_failure(run_qkv({"evaluate", "embed", QKV_TEST_DATA "/models/golden/bert_base", "--test", bad}), 1,
                 {"bad.tsv:2: expected a number as the score, found 'high'"});
  expect_failure(run_qkv({"train", "embed", "--train", bad, "--out", path("none")}), 2, {"--from: expected"});
  const std::string help = run_qkv({"train", "embed", "--help"}).out;
  for (const char* part :
       {"--learning-rate RATE=2e-05", "--temperature NUMBER=0.05", "--pool mean|cls|max=mean"})
    EXPECT_NE(help.find(part), std::string::npos) << part << " in:\n" << help;
  EXPECT_EQ(help.find("--preset"), std::string::npos);
}

}  // namespace
}  // namespace qkv::testing
