// qkv train classify and tag, qkv evaluate, run as by a user.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/json_results.h"
#include "tests/apps/run.h"
#include "tests/train/label_run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class LabelCommands : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (scratch_ / name).string(); }

  std::vector<std::string> training(const std::string& task, const std::string& out,
                                    const std::vector<std::string>& more) const {
    const bool words = task == "tag";
    const std::string train =
        scratch_.write("train." + task, words ? tagged_words(60) : colour_texts(60)).string();
    const std::string valid =
        scratch_.write("valid." + task, words ? tagged_words(15) : colour_texts(20)).string();
    std::vector<std::string> all{"train", task,    "--train", train,     "--valid",
                                 valid,   "--out", path(out), "--quiet", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> small(const std::string& task, const std::string& out,
                                 const std::vector<std::string>& more) const {
    std::vector<std::string> all =
        training(task, out,
                 {"--preset", "tiny", "--set", "model.d_model=32", "--set", "model.d_ff=64", "--set",
                  "model.max_positions=20", "--tokenizer", golden_model("bert_base").string(),
                  "--learning-rate", "0.005", "--warmup-steps", "10", "--batch-tokens", "120"});
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

TEST_F(LabelCommands, ClassifyTrainsEvaluatesAndClassifies) {
  const json trained = run(small("classify", "model", {"--max-steps", "100"}));
  EXPECT_EQ(trained["best"]["by"], "accuracy");
  EXPECT_EQ(trained["best"]["accuracy"], 1);
  EXPECT_GE(trained["validation"]["matthews"], 0.5);

  const std::string test = path("valid.classify");
  const json found = run({"evaluate", "classify", path("model"), "--test", test, "--json"});
  EXPECT_EQ(found["texts"], 20);
  EXPECT_EQ(found["accuracy"], 1);
  EXPECT_NEAR(found["loss"].get<double>(), trained["best"]["loss"].get<double>(), 1e-12)
      << "the exported model";
  EXPECT_EQ(found["labels"][1]["label"], "good");
  EXPECT_EQ(found["confusion"][0][1], 0);
  EXPECT_EQ(found["confusion"][0][0].get<int>() + found["confusion"][1][1].get<int>(), 20);
  const Outcome text = run_qkv({"evaluate", "classify", path("model"), "--test", test});
  EXPECT_NE(text.out.find("\naccuracy  1.0000\n"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find('_'), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("true \\ predicted"), std::string::npos) << text.out;

  // The command for single texts agrees.
  std::string inputs;
  std::istringstream lines(read_file(test));
  std::vector<std::string> labels;
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    labels.push_back(line.substr(0, tab));
    inputs += line.substr(tab + 1) + "\n";
  }
  const auto results = json_lines(run_qkv({"classify", path("model"), "--json"}, {.input = inputs}).out);
  ASSERT_EQ(results.size(), labels.size());
  for (size_t i = 0; i < labels.size(); ++i) EXPECT_EQ(results[i]["labels"][0]["label"], labels[i]) << i;

  scratch_.write("other", "ugly\ta dog\n");
  expect_failure(run_qkv({"evaluate", "classify", path("model"), "--test", path("other")}), 1,
                 {"other:1: expected one of the model's labels (bad, good), found 'ugly'"});
  expect_failure(run_qkv({"evaluate", "tag", path("model"), "--test", path("other")}), 2,
                 {"expected a model with a token classification head"});
}

TEST_F(LabelCommands, TagTrainsEvaluatesAndTags) {
  const json trained = run(small("tag", "model", {"--max-steps", "100"}));
  EXPECT_EQ(trained["best"]["accuracy"], 1);
  const json found = run({"evaluate", "tag", path("model"), "--test", path("valid.tag"), "--json"});
  EXPECT_EQ(found["sentences"], 15);
  EXPECT_EQ(found["accuracy"], 1);
  EXPECT_EQ(found["words_without_prediction"], 0);
  EXPECT_EQ(found["words"], std::ranges::count(tagged_words(15), '\t'));
  EXPECT_EQ(run_qkv({"tag", path("model")}, {.input = "the dog runs .\n"}).out,
            "the/DET dog/NOUN runs/VERB ./PUNCT\n");
}

TEST_F(LabelCommands, FineTunesAFolder) {
  const std::string folder = golden_model("bert_base").string();
  const json trained = run(
      training("classify", "model", {"--from", folder, "--max-epochs", "1", "--set", "learning_rate=1e-3"}));
  EXPECT_EQ(trained["epochs"], 1);
  const json config = json::parse(read_file(scratch_ / "model/config.json"));
  EXPECT_EQ(config["architectures"][0], "BertForSequenceClassification");
  EXPECT_EQ(config["hidden_size"], 8);
  EXPECT_EQ(config["id2label"]["0"], "bad");
  expect_failure(run_qkv(training("classify", "other", {"--from", folder, "--set", "layers=3"})), 2,
                 {"model.layers: expected none with --from"});
  expect_failure(run_qkv(training("classify", "other", {"--from", folder, "--preset", "mini"})), 2,
                 {"--preset: expected none with --from, whose folder has its own sizes, found 'mini'"});
  expect_failure(run_qkv(training("classify", "other", {"--from", golden_model("gpt2").string()})), 2,
                 {"--from", "expected the folder of a text encoder, found \"gpt2\", a language model"});
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "other"));
}

TEST_F(LabelCommands, EvaluatesAdapters) {
  const std::string folder = golden_model("bert_base").string();
  for (const std::string task : {"classify", "tag"}) {
    SCOPED_TRACE(task);
    const std::string adapter = path(task + "-adapter"), merged = path(task + "-merged");
    const json trained =
        run(training(task, task + "-adapter",
                     {"--from", folder, "--lora", "4", "--max-epochs", "4", "--learning-rate", "0.01"}));
    EXPECT_FALSE(std::filesystem::exists(adapter + "/model.safetensors"));
    EXPECT_EQ(run_qkv({"merge", folder, "--adapter", adapter, "--out", merged}).status, 0);
    const std::string test = path("valid." + task);
    const json adapted = run({"evaluate", task, folder, "--adapter", adapter, "--test", test, "--json"});
    EXPECT_NEAR(adapted["loss"].get<double>(), trained["best"]["loss"].get<double>(), 1e-5);
    EXPECT_EQ(adapted["accuracy"], trained["best"]["accuracy"]);
    EXPECT_EQ(run({"evaluate", task, merged, "--test", test, "--json"})["accuracy"], adapted["accuracy"]);
    // int8 weights answer too, and not with the same bits.
    const json coarse = run({"evaluate", task, merged, "--dtype", "int8", "--test", test, "--json"});
    EXPECT_NE(coarse["loss"], adapted["loss"]);
    expect_failure(run_qkv({"evaluate", task, folder, "--test", test}), 2,
                   {"classification head, found none"});
  }
}

TEST_F(LabelCommands, ResumesToTheSameBits) {
  for (const std::string task : {"classify", "tag"}) {
    SCOPED_TRACE(task);
    const std::string whole = task + "-whole", part = task + "-part";
    run(small(task, whole, {"--max-steps", "8", "--layer-decay", "0.75"}));
    run(small(task, part, {"--max-steps", "5", "--layer-decay", "0.75"}));
    run({"train", "--resume", path(part), "--max-steps", "8", "--quiet", "--json"});
    EXPECT_EQ(read_file(scratch_ / whole / "model.safetensors"),
              read_file(scratch_ / part / "model.safetensors"));
    expect_failure(run_qkv(small(task, part, {"--resume", "--max-steps", "9", "--layer-decay", "0.5"})), 2,
                   {"--resume: --layer-decay: expected 0.75 as in the checkpoint, found 0.5"});
    EXPECT_EQ(run({"verify-resume", path(whole), "--json", "--quiet"})["same"], true);
  }
}

TEST_F(LabelCommands, SavesBatches) {
  run(small("tag", "model", {"--max-steps", "1", "--save-batches", path("batches")}));
  const json batch = json::parse(read_file(scratch_ / "batches"));
  EXPECT_EQ(batch["texts"][0][0], 2) << "[CLS]";
  EXPECT_EQ(batch["labels"][0], -100);
}

TEST_F(LabelCommands, BadDataIsNamed) {
  const auto refused = [&](const std::string& content, const std::vector<std::string>& parts) {
    const std::string file = scratch_.write("bad", content).string();
    expect_failure(run_qkv({"train", "classify", "--train", file, "--out", path("none"), "--quiet"}), 1,
                   parts);
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "none"));
  };
  refused("1\tgood\n0\n", {"bad:2: expected 2 columns as in the first line, found 1"});
  refused("1\tgood\n1\tfine\n", {"bad: expected at least 2 different labels, found only '1'"});
  refused("1\tgood\n0\t\n", {"bad:2: expected a text, found an empty one"});
  expect_failure(run_qkv({"train", "classify", "--out", path("none")}), 2, {"--train: expected a file"});
  const std::string help = run_qkv({"train", "tag", "--help"}).out;
  for (const char* part :
       {"--tag-column N=0", "--layer-decay FACTOR=1", "--preset tiny|mini|small|medium|base=mini",
        "--lowercase true|false=false", "0: those of 32 sentences on average"})
    EXPECT_NE(help.find(part), std::string::npos) << part << " in:\n" << help;
}

}  // namespace
}  // namespace qkv::testing
