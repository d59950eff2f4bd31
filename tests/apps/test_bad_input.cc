#include <fstream>

#include "qkv/io/safetensors.h"
#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

namespace fs = std::filesystem;

class BadInput : public ::testing::Test {
 protected:
  BadInput() { config_ = write_random_model(model(), scratch_.path()); }

  std::string model() const { return (scratch_ / "model").string(); }
  std::string file(const char* name) const { return (scratch_ / "model" / name).string(); }
  Outcome translate(const std::string& input = "forty-two\n") const {
    return run_qkv({"translate", model(), "--threads", "1"}, {.input = input});
  }

  Scratch scratch_;
  models::TransformerConfig config_;
};

TEST_F(BadInput, TheModelItselfIsGood) {
  const Outcome outcome = translate();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(count_lines_of(outcome.out), 1);
}

TEST_F(BadInput, MissingFilesAreNamed) {
  expect_failure(run_qkv({"translate", model() + "-not"}), 1, {model() + "-not"});
  for (const char* name : {"model.safetensors", "config.json", "vocab.json", "source.spm"}) {
    fs::rename(file(name), scratch_ / "aside");
    expect_failure(translate(), 1, {file(name)});
    fs::rename(scratch_ / "aside", file(name));
  }
}

TEST_F(BadInput, ADamagedMarkOfADemoIsNamed) {
  const std::string mark = scratch_.write("demo/demo.json", R"({"training_seconds": "1"})").string();
  const std::string folder = (scratch_ / "demo").string();
  expect_failure(run_qkv({"demo", "--out", folder}), 1, {mark, "training_seconds: expected a number"});
  scratch_.write("demo/demo.json", std::string(100'000, '['));
  expect_failure(run_qkv({"demo", "--out", folder}), 1, {mark, "nested at most 64"});
}

TEST_F(BadInput, WhatTheSystemRefusesIsSaidWithoutItsJargon) {
  const std::string long_name(300, 'x');
  expect_failure(run_qkv({"embed", long_name}), 1, {concat("qkv: ", long_name, ": File name too long\n")});
}

TEST_F(BadInput, EmptyFilesAreNamed) {
  for (const char* name : {"model.safetensors", "config.json", "vocab.json", "source.spm"}) {
    fs::rename(file(name), scratch_ / "aside");
    std::ofstream(file(name)).close();
    expect_failure(translate(), 1, {file(name)});
    fs::rename(scratch_ / "aside", file(name));
  }
}

TEST_F(BadInput, ATruncatedModelIsNamed) {
  const auto size = fs::file_size(file("model.safetensors"));
  for (const uintmax_t kept : {size - 1, size / 2, uintmax_t{100}, uintmax_t{7}}) {
    fs::resize_file(file("model.safetensors"), kept);
    const Outcome outcome = translate();
    expect_failure(outcome, 1, {file("model.safetensors"), "expected", "found"});
    expect_failure(run_qkv({"inspect", model()}), 1, {file("model.safetensors"), "expected", "found"});
  }
}

TEST_F(BadInput, AForeignModelIsNamed) {
  std::ofstream(file("model.safetensors"), std::ios::trunc)
      << "PK\x03\x04 this is some other kind of file, and long enough";
  expect_failure(translate(), 1, {file("model.safetensors"), "expected", "found"});
  const std::vector<io::NamedTensor> other = {{"some.weight", Tensor::full({3, 4}, 0.5f)}};
  io::write_safetensors(file("model.safetensors"), other);
  expect_failure(translate(), 1, {file("model.safetensors")});
}

TEST_F(BadInput, AWrongShapeIsNamed) {
  const io::SafetensorsFile good(file("model.safetensors"));
  std::vector<io::NamedTensor> tensors;
  const std::string name = "model.encoder.layers.0.fc1.weight";
  for (const std::string& one : good.names())
    tensors.push_back({one, one == name ? Tensor::full({48, 31}, 0.1f) : good.tensor(one).clone()});
  io::write_safetensors(scratch_ / "other.safetensors", tensors, good.metadata());
  fs::rename(scratch_ / "other.safetensors", file("model.safetensors"));
  expect_failure(translate(), 1, {file("model.safetensors"), name, "[48, 32]", "[48, 31]"});
}

TEST_F(BadInput, AVocabularyThatDoesNotFitIsNamed) {
  const Scratch other;
  number_tokenizer(write_numbers(other.path(), 999), 50).save(model());
  expect_failure(translate(), 1,
                 {file("vocab.json"), "expected", std::to_string(config_.source_vocabulary), "50"});
}

TEST_F(BadInput, LinesThatCannotBeTranslatedAreNamedAndTheOthersTranslated) {
  std::string endless;
  for (int i = 0; i < 100'000; ++i) endless += "forty ";
  const Outcome alone = translate("forty-two\nseven\n");
  const Outcome outcome = translate("forty-two\n" + endless +
                                    "\nsev\xff"
                                    "en\nseven\n");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("line 2"), std::string::npos) << outcome.err.substr(0, 500);
  EXPECT_NE(outcome.err.find("line 3"), std::string::npos) << outcome.err.substr(0, 500);
  EXPECT_NE(outcome.err.find("2 of 4 lines"), std::string::npos);
  EXPECT_LT(outcome.err.size(), 1000) << "the line itself is no part of a message";
  const size_t first = alone.out.find('\n') + 1;
  EXPECT_EQ(outcome.out, alone.out.substr(0, first) + "\n\n" + alone.out.substr(first));
}

TEST_F(BadInput, EvaluationRefusesThemAndLeavesNoFile) {
  const std::string src = scratch_
                              .write("src",
                                     "one\ntw\xff"
                                     "o\n")
                              .string();
  const std::string ref = scratch_.write("ref", "eins\nzwei\n").string();
  const std::string good = scratch_.write("good", "one\ntwo\n").string();
  const std::string out = (scratch_ / "out").string();
  const std::vector<std::string> begin = {"evaluate", "translation", model()};
  const auto evaluate = [&](const std::string& source, const std::string& reference,
                            const std::string& save) {
    return run_qkv(
        {"evaluate", "translation", model(), "--src", source, "--ref", reference, "--save-output", save});
  };
  expect_failure(evaluate(src, ref, out), 1, {src, "UTF-8"});
  std::string endless;
  for (int i = 0; i < 1000; ++i) endless += "forty ";
  const std::string too_long = scratch_.write("long", "one\n" + endless + "\n").string();
  expect_failure(evaluate(too_long, ref, out), 1, {too_long + ":2", "64"});
  expect_failure(evaluate(good, scratch_.write("three", "a\nb\nc\n").string(), out), 1,
                 {"expected 2 lines", "found 3"});
  expect_failure(evaluate(good, ref, (scratch_ / "ref" / "out").string()), 1, {"ref/out"});
  for (const auto& entry : fs::directory_iterator(scratch_.path()))
    EXPECT_EQ(entry.path().filename().string().find("out"), std::string::npos) << entry.path();
}

TEST_F(BadInput, AttentionRefusesWhatItCannotDraw) {
  const std::string nowhere = (scratch_ / "no-such-folder" / "a.html").string();
  expect_failure(run_qkv({"attention", model(), "--source", "one", "--out", nowhere}), 1, {nowhere});
  expect_failure(run_qkv({"attention", model(), "--source", "one", "--out", (scratch_ / "a.png").string()}),
                 2, {"a.png", ".html"});
  const std::string out = (scratch_ / "a.html").string();
  expect_failure(run_qkv({"attention", model(), "--source", "o\xffne", "--out", out}), 1, {"UTF-8"});
  EXPECT_FALSE(fs::exists(out));
  EXPECT_FALSE(fs::exists(scratch_ / "a.png"));
}

TEST_F(BadInput, TrainingFindsItBeforeItWrites) {
  const std::string src = scratch_.write("src", "one\ntwo\n").string();
  const std::string tgt = scratch_.write("tgt", "eins\nzwei\n").string();
  const std::string out = (scratch_ / "run").string();
  const auto train = [&](const std::string& source, const std::string& target, const std::string& folder,
                         const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"train", "translation", "--src", source,        "--tgt",
                                    target,  "--out",       folder,  "--max-steps", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return run_qkv(all);
  };
  expect_failure(train(scratch_.write("none", "").string(), tgt, out), 1, {"none", "empty"});
  expect_failure(train((scratch_ / "missing").string(), tgt, out), 1, {"missing"});
  expect_failure(train(scratch_.write("three", "a\nb\nc\n").string(), tgt, out), 1, {"3", "2"});
  expect_failure(train(src, tgt, out, {"--preset", "huge"}), 2, {"tiny, small, base, big", "huge"});
  expect_failure(train(src, tgt, out, {"--set", "colour=red"}), 2, {"colour", "d_model", "batch_tokens"});
  expect_failure(train(src, tgt, out, {"--dropout", "1.5"}), 2, {"dropout", "1.5"});
  EXPECT_FALSE(fs::exists(out)) << "nothing was to be written";
  expect_failure(train(src, tgt, (scratch_ / "src" / "run").string()), 1, {"src/run"});
  expect_failure(train(scratch_
                           .write("bad",
                                  "one\ntw\xff"
                                  "o\n")
                           .string(),
                       tgt, out),
                 1, {"bad", "2", "UTF-8"});
  expect_failure(train(src, tgt, model()), 2, {model(), "already"});
}

TEST_F(BadInput, TheDemoWritesOverNothingElse) {
  const std::string folder = scratch_.path().string();
  expect_failure(run_qkv({"demo", "--out", folder, "--steps", "1"}), 2, {folder, "other files"});
  expect_failure(run_qkv({"demo", "--out", (scratch_ / "numbers.en").string()}), 2, {"numbers.en", "file"});
  expect_failure(run_qkv({"demo", "--out", (scratch_ / "numbers.en" / "demo").string(), "--steps", "1"}), 1,
                 {"numbers.en"});
}

}  // namespace
}  // namespace qkv::testing
