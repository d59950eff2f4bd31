// Options of qkv train that would have no effect, and what a refused or resumed command leaves.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/apps/json_results.h"
#include "tests/apps/run.h"
#include "tests/train/label_run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class TrainingOptions : public ::testing::Test {
 protected:
  using Arguments = std::vector<std::string>;

  std::string path(const std::string& name) const { return (scratch_ / name).string(); }
  std::string file(const std::string& name, const std::string& content) const {
    return scratch_.write(name, content).string();
  }
  // qkv train TASK with these options, in a folder that must not exist afterwards.
  void expect_refused(const std::string& task, const Arguments& options, const std::string& message) const {
    Arguments all{"train", task, "--out", path("out"), "--max-steps", "1", "--quiet"};
    all.insert(all.end(), options.begin(), options.end());
    expect_failure(run_qkv(all), 2, {message});
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "out")) << message;
  }
  Arguments classify(const std::string& out, const Arguments& more) const {
    Arguments all{"train",       "classify",
                  "--train",     file("train.tsv", colour_texts(24)),
                  "--valid",     file("valid.tsv", colour_texts(8)),
                  "--out",       path(out),
                  "--preset",    "tiny",
                  "--set",       "model.d_model=32",
                  "--set",       "model.d_ff=64",
                  "--set",       "model.max_positions=20",
                  "--tokenizer", golden_model("bert_base").string(),
                  "--schedule",  "constant",
                  "--quiet",     "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static json run(const Arguments& arguments) {
    const Outcome outcome = run_qkv(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? json::parse(outcome.out) : json();
  }

  Scratch scratch_;
};

TEST_F(TrainingOptions, WithoutEffectAreRefused) {
  const std::string labels = file("labels.tsv", colour_texts(24));
  const std::string numbers = file("numbers.tsv", "1\tthe dog\n2\tthe man\n");
  const std::string bert = golden_model("bert_base").string();
  const Arguments texts{"--train", labels};
  const auto with = [](Arguments some, const Arguments& more) {
    some.insert(some.end(), more.begin(), more.end());
    return some;
  };
  expect_refused("classify", with(texts, {"--lora-alpha", "8"}),
                 "--lora-alpha: expected none without --lora");
  expect_refused("classify", with(texts, {"--lora-targets", "fc1"}), "--lora-targets: expected none without");
  expect_refused("classify", with(texts, {"--lora-dtype", "bf16", "--from", bert}),
                 "--lora-dtype: expected none without --lora");
  expect_refused("classify", with(texts, {"--tokenizer", bert, "--vocab-size", "60"}),
                 "--vocab-size: expected none with --tokenizer");
  expect_refused("tag", {"--train", labels, "--tokenizer", bert, "--lowercase", "true"},
                 "--lowercase: expected none with --tokenizer");
  expect_refused("classify", {"--train", numbers, "--regression", "--label-smoothing", "0.1"},
                 "--label-smoothing: expected none with --regression");
  expect_refused("classify", with(texts, {"--validate-every", "5"}),
                 "--validate-every: expected none without validation data");
  expect_refused("classify", with(texts, {"--average-last", "3"}), "--average-last: expected none without");
  expect_refused("classify", with(texts, {"--set", "train.best_by=macro_f1"}),
                 "train.best_by: expected none without validation data");
  expect_refused("classify", with(texts, {"--schedule", "paper", "--learning-rate", "1e-3"}),
                 "--learning-rate: expected none with --schedule = paper");
}

TEST_F(TrainingOptions, WithoutEffectOnEmbeddingsAreRefused) {
  const std::string scored = file("scored.tsv", "1\ta dog\ta man\n0.5\tthe dog\tthe man\n");
  const std::string plain = file("plain.tsv", "a dog\ta man\nthe dog\tthe man\n");
  const auto refuse = [&](const std::string& pairs, const Arguments& more, const std::string& message) {
    Arguments all{"--from", golden_model("bert_base").string(), "--train", pairs};
    all.insert(all.end(), more.begin(), more.end());
    expect_refused("embed", all, message);
  };
  refuse(scored, {"--loss", "cosent", "--symmetric"}, "--symmetric: expected none with the loss cosent");
  refuse(scored, {"--symmetric"}, "--symmetric: expected none with the loss cosent");
  refuse(scored, {"--score-max", "5"}, "--score-max: expected none with the loss cosent");
  refuse(plain, {"--score-max", "5"}, "--score-max: expected none with the loss contrastive");
  refuse(scored, {"--loss", "cosine_mse", "--temperature", "0.1"},
         "--temperature: expected none with the loss cosine_mse");
}

TEST_F(TrainingOptions, WithoutEffectOnTextsAreRefused) {
  const std::string text = file("text", "one two\nthree four\n\nfive six\nseven eight\n");
  expect_refused("lm", {"--train", text, "--tokenizer", "chars", "--vocab-size", "300"},
                 "--vocab-size: expected none without --tokenizer = bpe");
  expect_refused("lm", {"--train", text, "--valid", text, "--valid-share", "0.2"},
                 "--valid-share: expected none with --valid");
  for (const Arguments& pairs : {Arguments{"--halves"}, {"--neighbours", "2"}, {"--short-share", "0.2"}}) {
    Arguments all{"--train", text, "--no-nsp"};
    all.insert(all.end(), pairs.begin(), pairs.end());
    expect_refused("pretrain-bert", all, pairs.front() + ": expected none with --no-nsp");
  }
  expect_refused("pretrain-bert",
                 {"--train", text, "--tokenizer", golden_model("bert_base").string(), "--cased"},
                 "--cased: expected none with --tokenizer");
  for (const Arguments& kind :
       {Arguments{"--vocab-size", "40"}, {"--vocab-kind", "bpe"}, {"--byte-fallback"}}) {
    Arguments all{"--src", text, "--tgt", text, "--vocab", text};
    all.insert(all.end(), kind.begin(), kind.end());
    expect_refused("translation", all, kind.front() + ": expected none with --vocab");
  }
}

// A resumed run makes no step, or more; its batches are added to those before.
TEST_F(TrainingOptions, SavedBatchesOfARefusedAndOfAResumedCommand) {
  const std::string batches = file("batches", "precious\n");
  expect_failure(
      run_qkv(classify("run", {"--max-steps", "2", "--save-batches", batches, "--lora-alpha", "2"})), 2,
      {"--lora-alpha"});
  Arguments late =
      classify("run", {"--max-minutes", "0.05", "--save-batches", batches, "--warmup-steps", "1000000"});
  *std::find(late.begin(), late.end(), "constant") = "linear";
  expect_failure(run_qkv(late), 2, {"--warmup-steps: expected fewer"});
  EXPECT_EQ(read_file(batches), "precious\n");
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "run"));

  EXPECT_GT(run(classify("run", {"--max-steps", "2", "--save-batches", batches}))["train_loss"], 0);
  const std::string first = read_file(batches);
  EXPECT_EQ(count_lines_of(first), 2u);
  const Arguments resume{"train", "--resume", path("run"), "--save-batches", batches, "--quiet", "--json"};
  EXPECT_TRUE(run(resume)["train_loss"].is_null());
  EXPECT_EQ(read_file(batches), first);
  Arguments longer = resume;
  longer.insert(longer.end(), {"--max-steps", "5"});
  EXPECT_GT(run(longer)["train_loss"], 0);
  EXPECT_EQ(read_file(batches).substr(0, first.size()), first);
  const std::string all = read_file(batches);
  EXPECT_EQ(count_lines_of(all), 5u);
  int64_t step = 0;
  for (const json& batch : json_lines(all)) EXPECT_EQ(batch["step"], ++step);

  // Killed after more steps than its last checkpoint has, within a line: those steps come once.
  file("batches", all + R"({"step":6,"texts":[[2,3]]})" + "\n" + R"({"step":7,"te)");
  Arguments last = resume;
  last.insert(last.end(), {"--max-steps", "6"});
  run(last);
  const std::string whole = read_file(batches);
  EXPECT_EQ(whole.substr(0, all.size()), all);
  EXPECT_EQ(count_lines_of(whole), 6u);
  EXPECT_EQ(json_lines(whole).back()["step"], 6);
  EXPECT_GT(json_lines(whole).back()["texts"].size(), 1u);

  file("batches", "precious\n");
  last.back() = "7";
  expect_failure(run_qkv(last), 1,
                 {batches + ": line 1: expected a batch of the run to resume", "found no JSON"});
  EXPECT_EQ(read_file(batches), "precious\n");
}

TEST_F(TrainingOptions, TheLengthOfTextsIsExported) {
  const auto length_in = [&](const std::string& out) {
    return json::parse(read_file(scratch_ / out / "tokenizer_config.json"))["model_max_length"];
  };
  run(classify("short", {"--max-steps", "1", "--max-length", "7"}));
  EXPECT_EQ(length_in("short"), 7);
  run(classify("whole", {"--max-steps", "1"}));
  EXPECT_EQ(length_in("whole"), 20);
  // An adapter's length is that of the merged model.
  const std::string bert = golden_model("bert_base").string();
  run({"train", "classify", "--train", path("train.tsv"), "--from", bert, "--lora", "2", "--max-steps", "1",
       "--max-length", "6", "--out", path("adapter"), "--quiet", "--json"});
  EXPECT_EQ(length_in("adapter"), 6);
  EXPECT_EQ(run_qkv({"merge", bert, "--adapter", path("adapter"), "--out", path("merged")}).status, 0);
  EXPECT_EQ(length_in("merged"), 6);
}

// A document is what it was for the adapter, not for its base.
TEST_F(TrainingOptions, DocumentsAreTheAdapters) {
  const std::string text = file("text", "the cat sat\non the mat\n\nthe dog dug\nin the fog\n");
  const auto train = [&](const std::string& out, const Arguments& more) {
    Arguments all{"train", "lm",      "--train",     text, "--valid", text,
                  "--out", path(out), "--max-steps", "2",  "--quiet", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    run(all);
  };
  train("base", {"--preset", "tiny", "--set", "model.layers=1", "--set", "model.d_model=32", "--set",
                 "model.heads=2", "--set", "model.d_ff=64", "--context", "24", "--vocab-size", "280"});
  train("adapter", {"--from", path("base"), "--lora", "2", "--documents", "lines"});
  const auto documents = [&](const Arguments& more) {
    Arguments all{"evaluate", "lm", "--test", text, "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all)["documents"];
  };
  EXPECT_EQ(documents({path("base")}), 2);
  EXPECT_EQ(documents({path("base"), "--adapter", path("adapter")}), 4);
  EXPECT_EQ(run_qkv({"merge", path("base"), "--adapter", path("adapter"), "--out", path("merged")}).status,
            0);
  EXPECT_EQ(documents({path("merged")}), 4);
  EXPECT_EQ(run_qkv({"self-test", path("merged")}).status, 0);
}

TEST_F(TrainingOptions, ImagesComeFromFilesThatExist) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused("image", {"--train", pipe}, "--train " + pipe + ": expected a file or a folder");
  expect_failure(run_qkv({"train", "image", "--train", path("nosuch"), "--out", path("out")}), 1,
                 {"--train " + path("nosuch") + ": expected a file or a folder, found none"});
}

}  // namespace
}  // namespace qkv::testing
