// qkv train --precision bf16, run as by a user.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "qkv/kernels/instruction_set.h"
#include "tests/apps/random_model.h"
#include "tests/apps/run.h"
#include "tests/support/image_files.h"
#include "tests/train/bert_run.h"
#include "tests/train/embed_run.h"
#include "tests/train/label_run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;
using Arguments = std::vector<std::string>;

const std::string kBert = QKV_TEST_DATA "/models/golden/bert_base";

class MixedPrecision : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (scratch_ / name).string(); }
  Arguments training(const std::string& task, const Arguments& data, const std::string& out,
                     const Arguments& more) const {
    Arguments all{"train",          task, "--out",   path(out), "--schedule", "constant",
                  "--warmup-steps", "1",  "--quiet", "--json"};
    all.insert(all.end(), data.begin(), data.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Arguments characters() const {
    std::string text;
    for (int i = 0; i < 80; ++i) text += i % 2 == 0 ? "the cat sat on the mat.\n\n" : "the dog\ndug.\n\n";
    return {"--train",        scratch_.write("text.txt", text).string(),
            "--tokenizer",    "chars",
            "--preset",       "tiny",
            "--context",      "24",
            "--batch-tokens", "300"};
  }
  // The bits of a run's weights.
  std::string weights(const std::string& out) const {
    const bool adapter = std::filesystem::exists(scratch_ / out / "adapter_model.safetensors");
    return read_file(scratch_ / out / (adapter ? "adapter_model.safetensors" : "model.safetensors"));
  }
  static json run(const Arguments& arguments) {
    const Outcome outcome = run_qkv(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? json::parse(outcome.out) : json();
  }

  // For any number of threads and after a resume the same bits, which are not those of f32.
  void expect_its_own_bits(const std::string& task, const Arguments& data) const {
    run(training(task, data, "f32", {"--max-steps", "6"}));
    run(training(task, data, "whole", {"--max-steps", "6", "--precision", "bf16", "--threads", "2"}));
    run(training(task, data, "part", {"--max-steps", "3", "--precision", "bf16", "--threads", "1"}));
    run({"train", "--resume", path("part"), "--max-steps", "6", "--threads", "3", "--quiet", "--json"});
    EXPECT_EQ(weights("part"), weights("whole"));
    EXPECT_NE(weights("f32"), weights("whole"));
    const Outcome verified = run_qkv({"verify-resume", path("part")});
    EXPECT_EQ(verified.status, 0) << verified.err;
  }

  Scratch scratch_;
};

TEST_F(MixedPrecision, OfTranslation) {
  const data::CorpusFiles corpus = write_numbers(scratch_.path(), 99);
  const std::string source = corpus.source.string(), target = corpus.target.string();
  expect_its_own_bits("translation", {"--src", source, "--tgt", target, "--valid-src", source, "--valid-tgt",
                                      target, "--preset", "tiny", "--vocab-size", "60", "--batch-tokens",
                                      "300", "--bleu-every", "0"});
}

TEST_F(MixedPrecision, OfALanguageModel) { expect_its_own_bits("lm", characters()); }

TEST_F(MixedPrecision, OfPretraining) {
  train::testing_task::write_topics(scratch_ / "data");
  expect_its_own_bits("pretrain-bert", {"--train", path("data/train.txt"), "--valid", path("data/valid.txt"),
                                        "--tokenizer", path("data/tokenizer"), "--preset", "tiny",
                                        "--max-length", "32", "--batch-tokens", "512"});
}

TEST_F(MixedPrecision, OfAClassifier) {
  const std::string texts = scratch_.write("texts", colour_texts(60)).string();
  expect_its_own_bits("classify", {"--train", texts, "--valid", texts, "--from", kBert});
}

TEST_F(MixedPrecision, OfATagger) {
  const std::string words = scratch_.write("words", tagged_words(60)).string();
  expect_its_own_bits("tag", {"--train", words, "--valid", words, "--from", kBert});
}

TEST_F(MixedPrecision, OfSentenceEmbeddings) {
  const std::string pairs = scratch_.write("pairs", train::testing_task::scored_pairs()).string();
  expect_its_own_bits("embed",
                      {"--train", pairs, "--valid", pairs, "--from", kBert, "--learning-rate", "0.001"});
}

TEST_F(MixedPrecision, OfAnAdapter) {
  const std::string texts = scratch_.write("texts", colour_texts(60)).string();
  expect_its_own_bits("classify", {"--train", texts, "--valid", texts, "--from", kBert, "--lora", "2"});
}

TEST_F(MixedPrecision, OfImages) {
  write_bars(scratch_, "train", 96, 8);
  write_bars(scratch_, "valid", 30, 8);
  expect_its_own_bits("image", {"--train", path("train-images"), "--labels", path("train-labels"), "--valid",
                                path("valid-images"), "--valid-labels", path("valid-labels"), "--set",
                                "model.layers=1", "--batch-images", "16", "--crop-padding", "1"});
}

TEST_F(MixedPrecision, RunsOnEveryProcessor) {
  const double wide = run(training("lm", characters(), "f32", {"--max-steps", "20"}))["validation"]["loss"];
  for (const kernels::InstructionSet set : kernels::instruction_sets()) {
    SCOPED_TRACE(kernels::name_of(set));
    const std::string folder = concat("bf16 ", kernels::name_of(set));
    Arguments arguments = training("lm", characters(), folder, {"--max-steps", "20", "--precision", "bf16"});
    std::erase(arguments, "--quiet");  // which drops notes
    const Outcome outcome = run_qkv(arguments, {.environment = concat("QKV_ISA=", kernels::name_of(set))});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const double loss = json::parse(outcome.out)["validation"]["loss"];
    EXPECT_NEAR(loss, wide, 0.02 * wide);
    EXPECT_NE(loss, wide);
    // Each set up to AVX-512 lacks the instructions; the ones after it may have them.
    const bool told = outcome.err.find("has no instructions for bf16 products") != std::string::npos;
    EXPECT_TRUE(told || set > kernels::InstructionSet::avx512) << outcome.err;
    EXPECT_FALSE(told && set == kernels::InstructionSet::amx) << outcome.err;
  }
}

TEST_F(MixedPrecision, IsKeptAndHasTwoValues) {
  const Arguments data = characters();
  run(training("lm", data, "f32", {"--max-steps", "2"}));
  expect_failure(
      run_qkv(training("lm", data, "f32", {"--resume", "--precision", "bf16", "--max-steps", "3"})), 2,
      {"--precision: expected f32 as in the checkpoint, found bf16"});
  expect_failure(run_qkv(training("lm", data, "int8", {"--precision", "int8"})), 2,
                 {"--precision: expected one of f32, bf16, found 'int8'"});
  expect_failure(run_qkv(training("lm", data, "int8", {"--set", "train.precision=int8"})), 2,
                 {"--precision: expected f32 or bf16, found int8"});
  EXPECT_FALSE(std::filesystem::exists(path("int8")));
}

}  // namespace
}  // namespace qkv::testing
