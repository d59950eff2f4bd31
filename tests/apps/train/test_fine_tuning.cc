// Runs that start from a model folder, and their adapters, as a user makes them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "tests/apps/random_model.h"
#include "tests/apps/run.h"
#include "tests/support/image_files.h"
#include "tests/train/embed_run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;
using Arguments = std::vector<std::string>;

const std::string kT5 = QKV_TEST_DATA "/pipelines/golden/t5";

double largest_difference(const std::vector<double>& left, const std::vector<double>& right) {
  EXPECT_FALSE(left.empty());
  EXPECT_EQ(left.size(), right.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i)
    largest = std::max(largest, std::abs(left[i] - right[i]));
  return largest;
}

class FineTuningCommand : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (scratch_ / name).string(); }

  // From the folder, on the numbers.
  Arguments tuning(const std::string& from, const std::string& out, const Arguments& more) const {
    const std::string source = corpus_.source.string(), target = corpus_.target.string();
    Arguments all{"train",  "translation",  "--src", source,        "--tgt",
                  target,   "--valid-src",  source,  "--valid-tgt", target,
                  "--from", from,           "--out", path(out),     "--batch-tokens",
                  "600",    "--bleu-every", "0",     "--quiet",     "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static json run(const Arguments& arguments) {
    const Outcome outcome = run_qkv(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? json::parse(outcome.out) : json();
  }
  static std::string output(const Arguments& arguments, const std::string& input) {
    const Outcome outcome = run_qkv(arguments, {.input = input});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }
  static std::string translations(Arguments arguments) {
    arguments.insert(arguments.begin(), "translate");
    return output(arguments, "forty-two\nninety-nine\nseven\n");
  }
  // Of all layers and heads, one after the other.
  std::vector<double> attention_weights(Arguments arguments) const {
    const std::string file = path("attention.json");
    arguments.insert(arguments.begin(), "attention");
    arguments.insert(arguments.end(), {"--source", "seven", "--target", "forty", "--out", file});
    output(arguments, "");
    std::vector<double> weights;
    const json report = json::parse(read_file(file));
    for (const json& layer : report["layers"]) {
      for (const json& weight : layer["heads"].flatten()) weights.push_back(weight.get<double>());
    }
    return weights;
  }
  // The base of the runs: a Marian folder after some steps.
  json make_base() const {
    Arguments all = small_training(corpus_, path("base"));
    all.insert(all.end(), {"--max-steps", "60", "--learning-rate", "0.01", "--warmup-steps", "5",
                           "--bleu-every", "0", "--json"});
    return run(all);
  }

  Scratch scratch_;
  data::CorpusFiles corpus_ = write_numbers(scratch_.path(), 99);
};

TEST_F(FineTuningCommand, OfATranslationFolderImprovesIt) {
  const json base = make_base();
  const json tuned = run(tuning(path("base"), "tuned", {"--max-steps", "60", "--learning-rate", "0.01"}));
  EXPECT_LT(tuned["best"]["loss"], 0.9 * base["best"]["loss"].get<double>());
  EXPECT_EQ(tuned["schedule_steps"], 60) << "linear, the default of fine-tuning";
  for (const char* file : {"source.spm", "vocab.json", "tokenizer_config.json", "generation_config.json"})
    EXPECT_EQ(read_file(scratch_ / "tuned" / file), read_file(scratch_ / "base" / file)) << file;
  EXPECT_EQ(json::parse(read_file(scratch_ / "tuned/config.json"))["model_type"], "marian");
  EXPECT_NE(translations({path("tuned")}), translations({path("base")}));
  EXPECT_EQ(run_qkv({"self-test", path("tuned")}).status, 0);
  // Without a limit: three epochs.
  EXPECT_EQ(run(tuning(path("base"), "epochs", {}))["epochs"], 3);
}

// SIGKILL once checkpoints exist; then the start folder vanishes.
TEST_F(FineTuningCommand, KilledAndResumedEndsInTheSameBits) {
  const Arguments more{"--max-steps", "200", "--validate-every", "50", "--checkpoint-every", "5"};
  std::filesystem::copy(kT5, scratch_ / "start");
  run(tuning(path("start"), "whole", more));
  std::string command = quoted(QKV_PROGRAM);
  for (const std::string& argument : tuning(path("start"), "part", more)) command += " " + quoted(argument);
  command += " --resume";
  for (const std::string step : {"000000005", "000000080"}) {
    const std::string script =
        concat(command, " >/dev/null 2>&1 & p=$!; while kill -0 $p 2>/dev/null && [ \"$(ls ",
               quoted(path("part/checkpoints")), " 2>/dev/null | tail -1)\" \\< step-", step,
               " ]; do sleep 0.002; done; kill -9 $p 2>/dev/null; wait $p");
    const int status = std::system(script.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 128 + 9) << "it ended before it was killed";
  }
  std::filesystem::remove_all(scratch_ / "start");
  run({"train", "--resume", path("part"), "--quiet", "--json"});
  for (const char* file : {"model.safetensors", "config.json", "generation_config.json", "tokenizer.json"})
    EXPECT_EQ(read_file(scratch_ / "part" / file), read_file(scratch_ / "whole" / file)) << file;
  EXPECT_EQ(json::parse(read_file(scratch_ / "whole/config.json"))["model_type"], "t5");
  EXPECT_EQ(count_lines_of(translations({path("whole")})), 3u);
}

TEST_F(FineTuningCommand, AdaptersOfTranslationModelsMerge) {
  make_base();
  for (const std::string& base : {path("base"), kT5}) {
    SCOPED_TRACE(base);
    for (const std::string dtype : {"f32", "int8"}) {
      const std::string out = concat(base == kT5 ? "t5-" : "marian-", dtype);
      const json result =
          run(tuning(base, out,
                     {"--lora", "4", "--lora-targets", "q_proj,v_proj,fc1,fc2", "--lora-dtype", dtype,
                      "--max-steps", "40", "--learning-rate", "0.02"}));
      EXPECT_TRUE(std::isfinite(result["best"]["loss"].get<double>()));
      EXPECT_FALSE(std::filesystem::exists(scratch_ / out / "model.safetensors"));
      const std::string adapted = translations({base, "--adapter", path(out)});
      EXPECT_NE(adapted, translations({base}));
      if (dtype != "f32") continue;
      EXPECT_EQ(run_qkv({"merge", base, "--adapter", path(out), "--out", path(out + "-merged")}).status, 0);
      EXPECT_EQ(translations({path(out + "-merged")}), adapted);
      const std::vector<double> merged = attention_weights({path(out + "-merged")});
      EXPECT_LT(largest_difference(attention_weights({base, "--adapter", path(out)}), merged), 1e-5);
      EXPECT_GT(largest_difference(attention_weights({base}), merged), 1e-3);
    }
  }
  // An adapter over a base with int8 weights.
  EXPECT_EQ(run_qkv({"quantize", path("base"), "--dtype", "int8", "--out", path("int8")}).status, 0);
  run(tuning(path("int8"), "over-int8", {"--lora", "2", "--max-steps", "10", "--learning-rate", "0.02"}));
  EXPECT_EQ(count_lines_of(translations({path("int8"), "--adapter", path("over-int8")})), 3u);
  // Of another base.
  expect_failure(run_qkv({"translate", path("base"), "--adapter", path("over-int8")}), 1,
                 {"expected the base model that the adapter was trained on"});
  // The folder holds a run.
  std::filesystem::remove_all(scratch_ / "over-int8/checkpoints");
  expect_failure(run_qkv(tuning(path("base"), "over-int8", {})), 2,
                 {"holds a model or a training run already"});
}

TEST_F(FineTuningCommand, NamesWhatDoesNotFit) {
  const auto refused = [&](const std::string& from, const Arguments& more, const Arguments& parts) {
    expect_failure(run_qkv(tuning(from, "bad", more)), 2, parts);
  };
  const std::string models = QKV_TEST_DATA "/models/golden/";
  refused(models + "gpt2", {}, {"--from", "expected the folder of an encoder-decoder, found \"gpt2\""});
  refused(models + "vit_base", {}, {"expected the folder of an encoder-decoder, found \"vit\""});
  refused(kT5, {"--vocab-size", "50"}, {"--vocab-size: expected none with --from"});
  refused(kT5, {"--set", "model.d_ff=50"}, {"model.d_ff: expected none with --from"});
  refused(kT5, {"--dropout", "1"}, {"--dropout: expected"});
  expect_failure(run_qkv(tuning(path("nowhere"), "bad", {})), 1, {"nowhere: there is no such folder"});
  Arguments scratch = small_training(corpus_, path("bad"));
  scratch.insert(scratch.end(), {"--lora", "2", "--max-steps", "2"});
  expect_failure(run_qkv(scratch), 2, {"--lora: expected a run that starts from a model folder (--from)"});
  const std::string text = scratch_.write("text", "one two\nthree four\n\nfive six\nseven eight\n").string();
  expect_failure(run_qkv({"train", "pretrain-bert", "--train", text, "--out", path("bad"), "--preset", "tiny",
                          "--lora", "2", "--max-steps", "2", "--quiet"}),
                 2, {"--lora: expected a run that starts from a model folder (--from)"});
}

TEST_F(FineTuningCommand, AdaptersOfEmbeddingsMerge) {
  const std::string pairs = scratch_.write("pairs.tsv", train::testing_task::scored_pairs()).string();
  const std::string base = QKV_TEST_DATA "/models/golden/bert_base";
  run({"train",           "embed",         "--from", base,  "--train",     pairs,   "--valid",        pairs,
       "--out",           path("adapter"), "--lora", "2",   "--max-steps", "40",    "--warmup-steps", "3",
       "--learning-rate", "0.02",          "--pool", "cls", "--quiet",     "--json"});
  EXPECT_EQ(run_qkv({"merge", base, "--adapter", path("adapter"), "--out", path("merged")}).status, 0);
  const std::string input = "a red dog\n";
  std::istringstream adapted(output({"embed", base, "--adapter", path("adapter")}, input)),
      merged(output({"embed", path("merged")}, input)),
      plain(output({"embed", base, "--pool", "cls"}, input));
  double moved = 0;
  int numbers = 0;
  for (double x = 0, y = 0, z = 0; adapted >> x && merged >> y && plain >> z; ++numbers) {
    EXPECT_NEAR(x, y, 1e-5);
    moved = std::max(moved, std::abs(x - z));
  }
  EXPECT_EQ(numbers, 8);
  EXPECT_GT(moved, 0.01);
  const json scores =
      run({"evaluate", "embed", base, "--adapter", path("adapter"), "--test", pairs, "--json"});
  const json others = run({"evaluate", "embed", path("merged"), "--test", pairs, "--json"});
  EXPECT_NEAR(scores["pearson"].get<double>(), others["pearson"].get<double>(), 1e-5);
}

TEST_F(FineTuningCommand, AdaptersOfImagesMerge) {
  write_bars(scratch_, "train", 96, 8);
  const auto training = [&](const std::string& out, const Arguments& more) {
    Arguments all{"train",           "image",
                  "--train",         path("train-images"),
                  "--labels",        path("train-labels"),
                  "--out",           path(out),
                  "--hold-out",      "20",
                  "--batch-images",  "16",
                  "--warmup-steps",  "2",
                  "--learning-rate", "0.01",
                  "--quiet",         "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  training("base", {"--max-steps", "4", "--set", "model.layers=1", "--set", "model.d_model=24"});
  const json tuned = training(
      "adapter", {"--from", path("base"), "--lora", "4", "--max-steps", "60", "--average-decay", "0"});
  EXPECT_GT(tuned["best"]["accuracy"], 0.6);
  EXPECT_EQ(run_qkv({"merge", path("base"), "--adapter", path("adapter"), "--out", path("merged")}).status,
            0);
  const auto evaluated = [&](const std::string& model, const Arguments& more) {
    Arguments all{"evaluate",           "image", model, "--test", path("train-images"), "--test-labels",
                  path("train-labels"), "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const json adapted = evaluated(path("base"), {"--adapter", path("adapter")}),
             merged = evaluated(path("merged"), {});
  EXPECT_EQ(adapted["accuracy"], merged["accuracy"]);
  EXPECT_NEAR(adapted["loss"].get<double>(), merged["loss"].get<double>(), 1e-5);
  EXPECT_LT(adapted["loss"], evaluated(path("base"), {})["loss"]);
}

}  // namespace
}  // namespace qkv::testing
