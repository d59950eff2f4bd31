// qkv train lm and qkv evaluate lm, run as by a user.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class LmCommand : public ::testing::Test {
 protected:
  LmCommand() {
    std::string text;
    for (int i = 0; i < 80; ++i) text += i % 2 == 0 ? "the cat sat on the mat.\n\n" : "the dog\ndug.\n\n";
    scratch_.write("train.txt", text);
    scratch_.write("test.txt", text.substr(0, 400));
  }

  std::string path(const std::string& name) const { return (scratch_ / name).string(); }
  std::vector<std::string> training(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> all{"train",          "lm",
                                 "--train",        path("train.txt"),
                                 "--out",          path(out),
                                 "--preset",       "tiny",
                                 "--set",          "model.layers=1",
                                 "--set",          "model.d_model=32",
                                 "--set",          "model.heads=2",
                                 "--set",          "model.d_ff=64",
                                 "--context",      "24",
                                 "--batch-tokens", "300",
                                 "--warmup-steps", "2",
                                 "--quiet",        "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static json run(const std::vector<std::string>& arguments) {
    const Outcome outcome = run_qkv(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? json::parse(outcome.out) : json();
  }

  Scratch scratch_;
};

TEST_F(LmCommand, TrainsEvaluatesGeneratesAndScores) {
  for (const std::string tokenizer : {"chars", "bpe"}) {
    SCOPED_TRACE(tokenizer);
    std::vector<std::string> options{"--tokenizer",      tokenizer, "--max-steps",     "60",
                                     "--validate-every", "20",      "--learning-rate", "0.01"};
    if (tokenizer == "bpe") options.insert(options.end(), {"--vocab-size", "280"});
    const json trained = run(training(tokenizer, options));
    EXPECT_EQ(trained["best"]["by"], "perplexity");
    EXPECT_LT(trained["best"]["bits_per_byte"], 2);
    EXPECT_NEAR(trained["validation"]["perplexity"].get<double>(),
                std::exp(trained["validation"]["loss"].get<double>()), 1e-9);
    const json score = run({"evaluate", "lm", path(tokenizer), "--test", path("test.txt"), "--json"});
    EXPECT_NEAR(score["bits_per_byte"].get<double>(),
                score["loss"].get<double>() * score["tokens"].get<double>() / std::log(2.0) /
                    score["bytes"].get<double>(),
                1e-9);
    EXPECT_EQ(score["context"], 24);
    EXPECT_EQ(score["unknown"], 0);
    EXPECT_EQ(score["documents"] == 1, tokenizer == "chars");
    const json other = run({"evaluate", "lm", path(tokenizer), "--test", path("test.txt"), "--json",
                            "--batch-tokens", "30", "--threads", "1"});
    EXPECT_EQ(other["loss"], score["loss"]);
    const Outcome text = run_qkv({"evaluate", "lm", path(tokenizer), "--test", path("test.txt")});
    EXPECT_NE(text.out.find(" nats per token, perplexity "), std::string::npos) << text.out;

    const Outcome generated = run_qkv({"generate", path(tokenizer)}, {.input = "the\n"});
    EXPECT_EQ(generated.status, 0) << generated.err;
    const bool animal =
        generated.out.find("cat") != std::string::npos || generated.out.find("dog") != std::string::npos;
    EXPECT_TRUE(animal) << generated.out;
    const Outcome scored = run_qkv({"score", path(tokenizer)}, {.input = "the dog\nzzz qqq\n"});
    EXPECT_EQ(count_lines_of(scored.out), 2u) << scored.err;
  }
}

TEST_F(LmCommand, ResumesWithoutAnyOptionToTheSameFiles) {
  const std::vector<std::string> options{"--tokenizer",      "chars", "--blocks", "llama",
                                         "--validate-every", "4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), options.begin(), options.end());
    return more;
  };
  run(training("whole", with({"--max-steps", "12", "--threads", "2", "--schedule", "constant"})));
  run(training("part", with({"--max-steps", "6", "--schedule", "constant"})));
  run({"train", "--resume", path("part"), "--max-steps", "12", "--threads", "1", "--quiet", "--json"});
  for (const char* file : {"model.safetensors", "config.json", "tokenizer.json", "log.jsonl"})
    EXPECT_EQ(read_file(scratch_ / "part" / file), read_file(scratch_ / "whole" / file)) << file;
}

// SIGKILL as soon as a checkpoint exists, several times.
TEST_F(LmCommand, KilledAndResumedEndsInTheSameBits) {
  const std::vector<std::string> more{"--tokenizer",      "chars", "--max-steps",        "200",
                                      "--validate-every", "25",    "--checkpoint-every", "5"};
  run(training("whole", more));
  std::string command = quoted(QKV_PROGRAM);
  for (const std::string& argument : training("part", more)) command += " " + quoted(argument);
  command += " --resume";
  for (const std::string step : {"000000005", "000000050", "000000120"}) {
    // The newest checkpoint, by name; the others are removed.
    const std::string script =
        concat(command, " >/dev/null 2>&1 & p=$!; while kill -0 $p 2>/dev/null && [ \"$(ls ",
               quoted(path("part/checkpoints")), " 2>/dev/null | tail -1)\" \\< step-", step,
               " ]; do sleep 0.002; done; kill -9 $p 2>/dev/null; wait $p");
    const int status = std::system(script.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 128 + 9) << "it ended before it was killed";
  }
  run({"train", "--resume", path("part"), "--quiet", "--json"});
  for (const char* file : {"model.safetensors", "tokenizer.json", "log.jsonl", "curve.svg"})
    EXPECT_EQ(read_file(scratch_ / "part" / file), read_file(scratch_ / "whole" / file)) << file;
}

TEST_F(LmCommand, ShowsSamples) {
  std::vector<std::string> arguments = training(
      "out", {"--tokenizer", "chars", "--max-steps", "4", "--validate-every", "2", "--samples", "2"});
  std::erase(arguments, "--quiet");
  const Outcome outcome = run_qkv(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  size_t lines = 0;
  for (size_t at = 0; (at = outcome.err.find("\n  | ", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 4u) << outcome.err;
}

TEST_F(LmCommand, NamesItsOptions) {
  const auto failing = [&](const std::vector<std::string>& more, int status,
                           const std::vector<std::string>& parts) {
    expect_failure(run_qkv(training("bad", more)), status, parts);
  };
  failing({"--set", "train.batch_tokens=0"}, 2, {"--batch-tokens: expected 1 or more, found 0"});
  failing({"--valid-share", "2"}, 2, {"--valid-share: expected 0 to below 1, found 2"});
  failing({"--blocks", "gpt3"}, 2, {"--blocks", "gpt2"});
  failing({"--documents", "pages"}, 2, {"--documents", "blank-lines"});
  failing({"--set", "model.key_heads=1"}, 2, {"model.key_heads: expected 0 or 2"});
  expect_failure(run_qkv({"train", "lm", "--train", path("nowhere"), "--out", path("bad")}), 1, {"nowhere"});
  expect_failure(run_qkv({"train", "lm", "--out", path("bad")}), 2, {"--train: expected a file"});
  failing({"--tokenizer", path("nowhere")}, 1, {"nowhere"});
  run(training("out", {"--tokenizer", "chars", "--max-steps", "3"}));
  expect_failure(run_qkv({"evaluate", "lm", path("out"), "--test", path("nowhere")}), 1, {"nowhere"});
  expect_failure(run_qkv({"evaluate", "lm", path("out"), "--test", path("train.txt"), "--stride", "25"}), 2,
                 {"stride: expected 1 to 24 tokens, the context, found 25"});
  const Outcome unknown =
      run_qkv({"evaluate", "lm", path("out"), "--test", scratch_.write("new", "the Cat\n").string()});
  EXPECT_EQ(unknown.status, 0);
  EXPECT_NE(unknown.err.find("1 of 8 tokens stand for characters outside the vocabulary"), std::string::npos)
      << unknown.err;
}

}  // namespace
}  // namespace qkv::testing
