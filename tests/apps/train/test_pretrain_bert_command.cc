// qkv train pretrain-bert and qkv evaluate pretrain-bert, as a user runs them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/apps/json_results.h"
#include "tests/apps/run.h"
#include "tests/train/bert_run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class PretrainBertCommand : public ::testing::Test {
 protected:
  PretrainBertCommand() { train::testing_task::write_topics(scratch_ / "data"); }

  std::string path(const std::string& name) const { return (scratch_ / name).string(); }
  std::vector<std::string> training(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> all{"train",          "pretrain-bert",
                                 "--train",        path("data/train.txt"),
                                 "--valid",        path("data/valid.txt"),
                                 "--tokenizer",    path("data/tokenizer"),
                                 "--out",          path(out),
                                 "--preset",       "tiny",
                                 "--set",          "model.d_model=32",
                                 "--set",          "model.d_ff=64",
                                 "--max-length",   "32",
                                 "--batch-tokens", "512",
                                 "--quiet",        "--json"};
    // An option may be given once.
    for (const std::string& option : more) {
      const auto found = std::ranges::find(all, option);
      if (option.starts_with("--") && option != "--set" && found != all.end()) all.erase(found, found + 2);
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  json run(const std::vector<std::string>& arguments) const {
    const Outcome outcome = run_qkv(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? json::parse(outcome.out) : json();
  }

  Scratch scratch_;
};

TEST_F(PretrainBertCommand, TrainsEvaluatesAndFillsMasks) {
  const json result = run(training("out", {"--max-steps", "300", "--validate-every", "150", "--dropout", "0",
                                           "--learning-rate", "0.005", "--warmup-steps", "20"}));
  EXPECT_EQ(result["steps"], 300);
  EXPECT_EQ(result["best"]["by"], "loss");
  for (const char* name : {"masked_loss", "masked_accuracy", "nsp_loss", "nsp_accuracy"})
    EXPECT_TRUE(result["validation"].contains(name)) << name;
  EXPECT_LT(result["best"]["masked_loss"], 2.1);
  EXPECT_GT(result["best"]["nsp_accuracy"], 0.85);
  const json config = json::parse(read_file(scratch_ / "out/config.json"));
  EXPECT_EQ(config["architectures"][0], "BertForPreTraining");
  EXPECT_EQ(config["max_position_embeddings"], 32);
  EXPECT_EQ(json::parse(read_file(scratch_ / "out/tokenizer_config.json"))["model_max_length"], 32);

  // The folder has the best model: its scores on the validation text are those of the run.
  const json scores =
      run({"evaluate", "pretrain-bert", path("out"), "--test", path("data/valid.txt"), "--json"});
  for (const char* name : {"masked_loss", "masked_accuracy", "nsp_loss", "nsp_accuracy"})
    EXPECT_NEAR(scores[name].get<double>(), result["best"][name].get<double>(), 1e-5) << name;
  EXPECT_EQ(scores["documents"], 8);
  EXPECT_EQ(scores["tokens"], 8 * 12 * 4);
  EXPECT_NEAR(scores["unigram_entropy"].get<double>(), std::log(48.0), 1e-3);
  const Outcome text = run_qkv({"evaluate", "pretrain-bert", path("out"), "--test", path("data/valid.txt")});
  EXPECT_NE(text.out.find("\nnext-sentence accuracy "), std::string::npos) << text.out << text.err;

  const Outcome filled = run_qkv({"fill-mask", path("out"), "--top", "1"}, {.input = "c0 c1 [MASK] c3\n"});
  EXPECT_NE(filled.out.find("\tc"), std::string::npos) << filled.out << filled.err;
}

// Pairs divided otherwise are other inputs: the scores are the run's with its option only.
TEST_F(PretrainBertCommand, EvaluatesHalvesAsTheRunDid) {
  const json result = run(training("out", {"--halves", "--max-steps", "30", "--validate-every", "30"}));
  const auto masked_loss = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"evaluate", "pretrain-bert",        path("out"),
                                 "--test",   path("data/valid.txt"), "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all)["masked_loss"].get<double>();
  };
  EXPECT_NEAR(masked_loss({"--halves"}), result["best"]["masked_loss"].get<double>(), 1e-5);
  EXPECT_GT(std::abs(masked_loss({}) - masked_loss({"--halves"})), 1e-4);
}

TEST_F(PretrainBertCommand, ResumesWithoutAnyOptionToTheSameBits) {
  const std::vector<std::string> options{"--whole-word",     "--length-warmup",
                                         "8:2,16:2",         "--halves",
                                         "--neighbours",     "3",
                                         "--nsp-from",       "16",
                                         "--schedule",       "inverse_sqrt",
                                         "--warmup-steps",   "2",
                                         "--validate-every", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), options.begin(), options.end());
    return more;
  };
  run(training("whole", with({"--max-steps", "6"})));
  run(training("part", with({"--max-steps", "3"})));
  const json resumed = run({"train", "--resume", path("part"), "--max-steps", "6", "--quiet", "--json"});
  EXPECT_EQ(resumed["steps"], 6);
  EXPECT_EQ(read_file(scratch_ / "part/model.safetensors"), read_file(scratch_ / "whole/model.safetensors"));
  std::vector<std::string> other = training("part", with({"--max-steps", "8", "--resume", "--no-nsp"}));
  // Repeating the options, the model's size among them, has no effect.
  run(training("again", with({"--max-steps", "3"})));
  run(training("again", with({"--max-steps", "6", "--resume"})));
  EXPECT_EQ(read_file(scratch_ / "again/model.safetensors"), read_file(scratch_ / "whole/model.safetensors"));
  expect_failure(run_qkv(other), 2, {"--resume: --no-nsp: expected false as in the checkpoint, found true"});
}

TEST_F(PretrainBertCommand, WarmsUpWithShortInputs) {
  run(training("out", {"--max-steps", "5", "--length-warmup", "8:2,16:2", "--save-batches", path("batches"),
                       "--set", "train.checkpoint_every=3"}));
  const std::vector<json> batches = json_lines(read_file(scratch_ / "batches"));
  ASSERT_EQ(batches.size(), 5u);
  for (size_t i = 0; i < batches.size(); ++i) {
    size_t longest = 0;
    for (const json& ids : batches[i]["inputs"]) longest = std::max(longest, ids.size());
    const size_t least = i < 2 ? 4 : i < 4 ? 9 : 17, most = i < 2 ? 8 : i < 4 ? 16 : 32;
    EXPECT_TRUE(longest >= least && longest <= most) << i << ": " << longest;
    EXPECT_EQ(batches[i]["not_next"].empty(), i < 4) << i;
  }
  const Outcome verified = run_qkv({"verify-resume", path("out")});  // steps 4 and 5: with and without
  EXPECT_EQ(verified.status, 0) << verified.err;

  const auto refused = [&](const char* stages, const char* message) {
    expect_failure(run_qkv(training("none", {"--max-steps", "5", "--length-warmup", stages})), 2, {message});
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "none"));
  };
  refused("16", "--length-warmup: expected LENGTH:BATCHES,... such as 16:600,32:200, found '16'");
  refused("16:0", "--length-warmup: expected 1 or more batches of length 16, found 0");
  refused("32:5", "--length-warmup: expected growing lengths, here 3 to 31 (--max-length is 32), found 32");
}

// Without --tokenizer, a vocabulary is trained.
TEST_F(PretrainBertCommand, TrainsAVocabulary) {
  const std::string text = path("data/train.txt");
  const json result = run({"train", "pretrain-bert", "--train", text, "--out", path("own"), "--preset",
                           "tiny", "--set", "model.d_model=32", "--vocab-size", "60", "--max-length", "32",
                           "--max-steps", "2", "--quiet", "--json"});
  EXPECT_EQ(result["steps"], 2);
  EXPECT_FALSE(result.contains("validation"));
  EXPECT_LE(json::parse(read_file(scratch_ / "own/config.json"))["vocab_size"], 60);
  const Outcome filled = run_qkv({"fill-mask", path("own"), "--top", "1"}, {.input = "c0 [MASK]\n"});
  EXPECT_EQ(filled.status, 0) << filled.err;
  EXPECT_EQ(count_lines_of(filled.out), 1u);
  EXPECT_EQ(run({"train", "--resume", path("own"), "--quiet", "--json"})["steps"], 2);
}

TEST_F(PretrainBertCommand, SavesTheBatches) {
  run(training("out", {"--max-steps", "2", "--save-batches", path("batches")}));
  const std::vector<json> batches = json_lines(read_file(scratch_ / "batches"));
  ASSERT_EQ(batches.size(), 2u);
  for (const json& batch : batches) {
    std::vector<int32_t> ids, types;
    for (size_t i = 0; i < batch["inputs"].size(); ++i) {
      EXPECT_EQ(batch["inputs"][i][0], 2);
      EXPECT_EQ(batch["inputs"][i].back(), 3);
      EXPECT_EQ(batch["types"][i].size(), batch["inputs"][i].size());
      for (const json& id : batch["inputs"][i]) ids.push_back(id.get<int32_t>());
    }
    EXPECT_EQ(batch["not_next"].size(), batch["inputs"].size());
    ASSERT_EQ(batch["masked"].size(), batch["labels"].size());
    int64_t mask_tokens = 0;
    for (const json& at : batch["masked"]) mask_tokens += ids.at(at.get<size_t>()) == 4 ? 1 : 0;
    EXPECT_GT(mask_tokens, std::ssize(batch["masked"]) / 2);
    EXPECT_EQ(mask_tokens, std::ranges::count(ids, 4));
  }
}

TEST_F(PretrainBertCommand, BadInputIsNamed) {
  const auto failing = [&](std::vector<std::string> more, int status, const std::vector<std::string>& parts) {
    more.insert(more.end(), {"--max-steps", "1"});
    expect_failure(run_qkv(training("out", more)), status, parts);
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "out")) << "nothing was to be written";
  };
  const std::string flat = scratch_.write("flat.txt", "a0 a1\nb0 b1\n").string();
  failing({"--train", flat}, 1,
          {"flat.txt: next-sentence prediction needs two or more documents with blank lines between them",
           "found one document of 2 sentences; --no-nsp"});
  failing({"--train", scratch_.write("empty.txt", "").string()}, 1, {"empty.txt", "found an empty file"});
  failing({"--train", path("nowhere.txt")}, 1, {"nowhere.txt"});
  failing({"--valid", flat}, 1, {"flat.txt: next-sentence prediction"});
  failing({"--max-length", "4"}, 2, {"--max-length: expected 5 or more tokens, found 4"});
  failing({"--mask-rate", "0"}, 2, {"--mask-rate: expected above 0 and below 1, found 0"});
  failing({"--set", "model.max_positions=16"}, 2, {"model.max_positions: expected at least --max-length"});
  expect_failure(run_qkv({"train", "pretrain-bert", "--out", path("out")}), 2, {"--train: expected a file"});
  run(training("flat", {"--train", flat, "--valid", flat, "--no-nsp", "--max-steps", "1"}));
  EXPECT_EQ(json::parse(read_file(scratch_ / "flat/config.json"))["architectures"][0], "BertForMaskedLM");
  expect_failure(run_qkv({"evaluate", "pretrain-bert", path("flat"), "--test", flat, "--max-length", "99"}),
                 2, {"--max-length: expected 4 to 32, the model's maximum, found 99"});
  // What would help in training does not in evaluation.
  run(training("pairs", {"--max-steps", "1"}));
  const Outcome one = run_qkv({"evaluate", "pretrain-bert", path("pairs"), "--test", flat});
  expect_failure(one, 1, {"found one document of 2 sentences; the model has that head"});
  EXPECT_EQ(one.err.find("no-nsp"), std::string::npos) << one.err;
}

TEST_F(PretrainBertCommand, HelpSaysTypeAndDefault) {
  const std::string help = run_qkv({"train", "pretrain-bert", "--help"}).out;
  for (const char* part : {"--mask-rate SHARE=0.15", "--vocab-size N=8000",
                           "--preset tiny|mini|small|medium|base=mini", "--no-nsp", "--whole-word"})
    EXPECT_NE(help.find(part), std::string::npos) << part << " in:\n" << help;
}

}  // namespace
}  // namespace qkv::testing
