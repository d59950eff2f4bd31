#include <fstream>

#include "qkv/io/safetensors.h"
#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

namespace fs = std::filesystem;

class BadInput : public CommandTest {
 protected:
  BadInput() { config_ = write_random_model(scratch_ / "model", scratch_.path()); }

  std::string file(const std::string& name) const { return path("model/" + name); }
  void expect_model_refused(const std::vector<std::string>& parts) const {
    expect_refused("translate @/model --threads 1", 1, parts, "forty-two\n");
  }

  models::TransformerConfig config_;
};

TEST_F(BadInput, MissingAndEmptyFilesAreNamed) {
  EXPECT_EQ(count_lines_of(output("translate @/model", "forty-two\n")), 1) << "the model is good";
  expect_refused("translate @/model-not", 1, {path("model-not")});
  for (const char* name : {"model.safetensors", "config.json", "vocab.json", "source.spm"}) {
    fs::rename(file(name), scratch_ / "aside");
    expect_model_refused({file(name)});
    for (const char* content : {"", "garbage", "{\"a\": 1e999}", "{\"a\""}) {
      std::ofstream(file(name)) << content;
      expect_model_refused({file(name)});
    }
    fs::rename(scratch_ / "aside", file(name));
  }
}

TEST_F(BadInput, ADamagedDemoMarkIsNamed) {
  const std::string mark = scratch_.write("demo/demo.json", R"({"training_seconds": "1"})").string();
  expect_refused("demo --out @/demo", 1, {mark, "training_seconds: expected a number"});
  scratch_.write("demo/demo.json", std::string(100'000, '['));
  expect_refused("demo --out @/demo", 1, {mark, "nested at most 64"});
}

TEST_F(BadInput, SystemErrorsAreInPlainWords) {
  const std::string long_name(300, 'x');
  expect_refused("embed " + long_name, 1, {concat("qkv: ", long_name, ": File name too long\n")});
}

TEST_F(BadInput, ATruncatedModelIsNamed) {
  const auto size = fs::file_size(file("model.safetensors"));
  for (const uintmax_t kept : {size - 1, size / 2, uintmax_t{100}, uintmax_t{7}}) {
    fs::resize_file(file("model.safetensors"), kept);
    expect_model_refused({file("model.safetensors"), "expected", "found"});
    expect_refused("inspect @/model", 1, {file("model.safetensors"), "expected", "found"});
  }
}

TEST_F(BadInput, AForeignModelIsNamed) {
  scratch_.write("model/model.safetensors", "PK\x03\x04 this is some other kind of file, and long enough");
  expect_model_refused({file("model.safetensors"), "expected", "found"});
  const std::vector<io::NamedTensor> other = {{"some.weight", Tensor::full({3, 4}, 0.5f)}};
  io::write_safetensors(file("model.safetensors"), other);
  expect_model_refused({file("model.safetensors")});
}

TEST_F(BadInput, AWrongShapeIsNamed) {
  const io::SafetensorsFile good(file("model.safetensors"));
  std::vector<io::NamedTensor> tensors;
  const std::string name = "model.encoder.layers.0.fc1.weight";
  for (const std::string& one : good.names())
    tensors.push_back({one, one == name ? Tensor::full({48, 31}, 0.1f) : good.tensor(one).clone()});
  io::write_safetensors(scratch_ / "other.safetensors", tensors, good.metadata());
  fs::rename(scratch_ / "other.safetensors", file("model.safetensors"));
  expect_model_refused({file("model.safetensors"), name, "[48, 32]", "[48, 31]"});
}

TEST_F(BadInput, AVocabularyThatDoesNotFitIsNamed) {
  const Scratch other;
  number_tokenizer(write_numbers(other.path(), 999), 50).save(scratch_ / "model");
  expect_model_refused({file("vocab.json"), "expected", std::to_string(config_.source_vocabulary), "50"});
}

TEST_F(BadInput, BadLinesAreNamedAndTheOthersTranslated) {
  std::string endless;
  for (int i = 0; i < 100'000; ++i) endless += "forty ";
  const std::string alone = output("translate @/model", "forty-two\nseven\n");
  const Outcome outcome = run("translate @/model", {.input = concat("forty-two\n", endless,
                                                                    "\nsev\xff"
                                                                    "en\nseven\n")});
  EXPECT_EQ(outcome.status, 1);
  expect_parts(outcome.err.substr(0, 1000), {"line 2", "line 3", "2 of 4 lines"});
  EXPECT_LT(outcome.err.size(), 1000) << "the line itself is no part of a message";
  const size_t first = alone.find('\n') + 1;
  EXPECT_EQ(outcome.out, concat(alone.substr(0, first),
                                "error: line 2: expected at most 64 source tokens, found 100001\n"
                                "error: line 3: expected UTF-8, found a malformed character at byte 3\n",
                                alone.substr(first)));
}

TEST_F(BadInput, EvaluationWritesNoFileAfterAnError) {
  std::string endless;
  for (int i = 0; i < 1000; ++i) endless += "forty ";
  scratch_.write("bad", "one\ntw\xff\n");
  scratch_.write("long", "one\n" + endless + "\n");
  scratch_.write("good", "one\ntwo\n");
  scratch_.write("ref", "eins\nzwei\n");
  scratch_.write("three", "a\nb\nc\n");
  const std::string evaluate = "evaluate translation @/model --save-output ";
  expect_refused(evaluate + "@/out --src @/bad --ref @/ref", 1, {path("bad"), "UTF-8"});
  expect_refused(evaluate + "@/out --src @/long --ref @/ref", 1, {path("long") + ":2", "64"});
  expect_refused(evaluate + "@/out --src @/good --ref @/three", 1, {"expected 2 lines", "found 3"});
  expect_refused(evaluate + "@/ref/out --src @/good --ref @/ref", 1, {"ref/out"});
  for (const auto& entry : fs::directory_iterator(scratch_.path()))
    EXPECT_EQ(entry.path().filename().string().find("out"), std::string::npos) << entry.path();
}

TEST_F(BadInput, AttentionWritesNoFileAfterAnError) {
  expect_refused("attention @/model --source one --out @/missing/a.html", 1, {path("missing/a.html")});
  expect_refused("attention @/model --source one --out @/a.png", 2, {"a.png", ".html"});
  expect_refused("attention @/model --source o\xffne --out @/a.html", 1, {"UTF-8"});
  EXPECT_FALSE(fs::exists(scratch_ / "a.html"));
  EXPECT_FALSE(fs::exists(scratch_ / "a.png"));
}

TEST_F(BadInput, TrainingChecksBeforeItWrites) {
  scratch_.write("src", "one\ntwo\n");
  scratch_.write("tgt", "eins\nzwei\n");
  scratch_.write("none", "");
  scratch_.write("three", "a\nb\nc\n");
  scratch_.write("bad", "one\ntw\xff\n");
  const std::string train = "train translation --max-steps 1 --tgt @/tgt ",
                    good = train + "--src @/src --out ";
  expect_refused(train + "--out @/run --src @/none", 1, {"none", "empty"});
  expect_refused(train + "--out @/run --src @/missing", 1, {"missing"});
  expect_refused(train + "--out @/run --src @/three", 1, {"3", "2"});
  expect_refused(good + "@/run --preset huge", 2, {"tiny, small, base, big", "huge"});
  expect_refused(good + "@/run --set colour=red", 2, {"colour", "d_model", "batch_tokens"});
  expect_refused(good + "@/run --dropout 1.5", 2, {"dropout", "1.5"});
  EXPECT_FALSE(fs::exists(scratch_ / "run"));
  expect_refused(good + "@/src/run", 1, {"src/run"});
  expect_refused(train + "--out @/run --src @/bad", 1, {"bad", "2", "UTF-8"});
  expect_refused(good + "@/model", 2, {path("model"), "already"});
}

TEST_F(BadInput, TheDemoOverwritesNothingElse) {
  expect_refused("demo --out @ --steps 1", 2, {scratch_.path().string(), "other files"});
  expect_refused("demo --out @/numbers.en", 2, {"numbers.en", "file"});
  expect_refused("demo --out @/numbers.en/demo --steps 1", 1, {"numbers.en"});
}

}  // namespace
}  // namespace qkv::testing
