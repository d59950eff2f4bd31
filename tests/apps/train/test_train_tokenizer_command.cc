// qkv train-tokenizer, run as by a user.

#include <nlohmann/json.hpp>

#include "qkv/base/utf8.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Lines of number words, which have frequent pairs.
std::string number_text(int lines) {
  const std::vector<std::string> words{"one",   "two",   "three",   "twenty", "thirty",
                                       "forty", "fifty", "hundred", "Ünder",  "thousand"};
  std::string text;
  for (int i = 0; i < lines; ++i) {
    for (int k = 0; k < 5; ++k) text += words[static_cast<size_t>(i * (k + 3) + k * k) % words.size()] + " ";
    text += "\n";
  }
  return text;
}

TEST(TrainTokenizerCommand, EveryKindTokenizesAfterwards) {
  const Scratch scratch;
  const std::string text = scratch.write("text", number_text(300)).string();
  for (const std::string kind : {"wordpiece", "bpe", "unigram", "chars"}) {
    const std::string out = (scratch / kind).string();
    std::vector<std::string> arguments{"train-tokenizer", "--kind", kind, "--out", out, "--json", text};
    if (kind != "chars") arguments.insert(arguments.end(), {"--vocab-size", kind == "bpe" ? "300" : "60"});
    const Outcome outcome = run_qkv(arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const json summary = json::parse(outcome.out);
    EXPECT_EQ(summary["kind"], kind);
    EXPECT_EQ(summary["folder"], out);
    const int64_t size = summary["vocab_size"];
    const json file = json::parse(read_file(fs::path(out) / "tokenizer.json"));
    const auto added = kind == "unigram" ? 2 : 0;  // </s>, <pad>
    EXPECT_EQ(size, std::ssize(file["model"]["vocab"]) + added);
    if (kind == "wordpiece") {
      EXPECT_EQ(size, 60);
      EXPECT_EQ(summary["lines"], 300);
      EXPECT_EQ(summary["words"], 1500);
      EXPECT_EQ(summary["distinct_words"], 10);
      int64_t characters = 0;  // those within words included
      for (const auto& [piece, id] : file["model"]["vocab"].items()) {
        characters += count_characters(piece.substr(piece.starts_with("##") ? 2 : 0)) == 1 ? 1 : 0;
      }
      EXPECT_EQ(summary["merges"], size - 5 - characters) << summary;
    }
    EXPECT_EQ(outcome.err.find("\033"), std::string::npos);
    EXPECT_NE(outcome.err.find(concat(size, " tokens")), std::string::npos) << outcome.err;

    const std::string lines = kind == "wordpiece" ? "thirty under one\n" : "thirty Ünder one\n";
    const Outcome ids = run_qkv({"tokenize", out, "--ids", "--no-special-tokens"}, {.input = lines});
    ASSERT_EQ(ids.status, 0) << ids.err;
    EXPECT_EQ(run_qkv({"tokenize", out, "--decode"}, {.input = ids.out}).out, lines) << kind;
    EXPECT_EQ(fs::exists(fs::path(out) / "tokenizer_config.json"), true);
    EXPECT_EQ(std::distance(fs::directory_iterator(out), fs::directory_iterator()), 2);
  }
}

TEST(TrainTokenizerCommand, CasedLowercaseAndStdin) {
  const Scratch scratch;
  const auto train = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), {"train-tokenizer", "-", "--quiet", "--out", (scratch / name).string()});
    const Outcome outcome = run_qkv(more, {.input = "Ünder Hut\n"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err + outcome.out, "");
    return read_file(scratch / name / "tokenizer.json");
  };
  const std::string lower = train("lower", {});
  EXPECT_EQ(train("named", {"--lowercase", "--kind", "wordpiece"}), lower);
  const json cased = json::parse(train("cased", {"--cased"}));
  EXPECT_TRUE(cased["model"]["vocab"].contains("Ü"));
  EXPECT_FALSE(json::parse(lower)["model"]["vocab"].contains("Ü"));
  const json config = json::parse(read_file(scratch / "cased" / "tokenizer_config.json"));
  EXPECT_EQ(config["do_lower_case"], false);
}

TEST(TrainTokenizerCommand, Errors) {
  const Scratch scratch;
  const std::string text = scratch.write("text", number_text(20)).string();
  const std::string out = (scratch / "out").string();
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train-tokenizer", "--out", out});
    return run_qkv(more);
  };
  expect_failure(run({}), 2, {"FILE"});
  expect_failure(run({text, "--kind", "words"}), 2, {"--kind", "wordpiece", "words"});
  expect_failure(run({text, "--vocab-size", "20"}), 2, {"--vocab-size: expected at least", "found 20"});
  expect_failure(run({text, "--kind", "chars", "--vocab-size", "90"}), 2,
                 {"--vocab-size: not for --kind chars"});
  expect_failure(run({text, "--kind", "bpe", "--cased"}), 2, {"--cased: only for --kind wordpiece"});
  expect_failure(run({text, "--vocab-lines", "9"}), 2, {"--vocab-lines: only for --kind unigram"});
  expect_failure(run({text, "--kind", "unigram", "--vocab-lines", "-1"}), 2, {"--vocab-lines", "-1"});
  expect_failure(run({text, "--cased", "--lowercase"}), 2, {"--cased"});
  expect_failure(run({text, "--min-frequency", "-1"}), 2, {"--min-frequency", "-1"});
  expect_failure(run({"-", "--kind", "unigram"}), 2, {"stdin"});
  expect_failure(run({(scratch / "missing").string()}), 1, {"missing"});
  expect_failure(run({scratch.write("bad", "a\n\xff\n").string()}), 1, {"bad, line 2"});
  EXPECT_FALSE(fs::exists(out));  // no failure leaves files

  ASSERT_EQ(run({text, "--quiet"}).status, 0);
  const std::string before = read_file(fs::path(out) / "tokenizer.json");
  expect_failure(run({text, "--kind", "chars"}), 2, {"tokenizer.json", "--overwrite"});
  EXPECT_EQ(read_file(fs::path(out) / "tokenizer.json"), before);
  ASSERT_EQ(run({text, "--quiet", "--kind", "chars", "--overwrite"}).status, 0);
  EXPECT_NE(read_file(fs::path(out) / "tokenizer.json"), before);
  EXPECT_EQ(json::parse(read_file(fs::path(out) / "tokenizer_config.json"))["tokenizer_class"],
            "PreTrainedTokenizerFast");
}

// A folder stands where a file is to be written.
TEST(TrainTokenizerCommand, LeavesNoPartOfATokenizer) {
  const Scratch scratch;
  const std::string text = scratch.write("text", number_text(20)).string();
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    fs::create_directories(scratch / "out" / name);
    expect_failure(run_qkv({"train-tokenizer", text, "--out", (scratch / "out").string(), "--overwrite"}), 1,
                   {name});
    fs::remove(scratch / "out" / name);
    EXPECT_TRUE(fs::is_empty(scratch / "out")) << name;
  }
}

TEST(TrainTokenizerCommand, EveryKindSaysHowManyLinesWereSkipped) {
  const Scratch scratch;
  const std::string text =
      scratch.write("text", "bad \xff line\n" + number_text(300) + "bad \xfe line\n").string();
  for (const std::string kind : {"wordpiece", "bpe", "unigram", "chars"}) {
    std::vector<std::string> arguments{"train-tokenizer", text,     "--kind", kind,
                                       "--skip-bad-utf8", "--json", "--out",  (scratch / kind).string()};
    if (kind != "chars") arguments.insert(arguments.end(), {"--vocab-size", kind == "bpe" ? "300" : "60"});
    const Outcome outcome = run_qkv(arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("2 lines of invalid UTF-8 skipped"), std::string::npos) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out)["skipped_lines"], 2) << kind;
  }
}

TEST(TrainTokenizerCommand, UnigramNamesTheSampleOfLines) {
  const Scratch scratch;
  const std::string text = scratch.write("text", number_text(300)).string();
  const auto train = [&](const std::string& lines) {
    const Outcome outcome =
        run_qkv({"train-tokenizer", text, "--kind", "unigram", "--vocab-size", "50", "--vocab-lines", lines,
                 "--overwrite", "--json", "--out", (scratch / "out").string()});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err.find("from 200 of 300 lines, drawn at random") != std::string::npos, lines == "200")
        << outcome.err;
    const json summary = json::parse(outcome.out);
    EXPECT_EQ(summary["lines"], 300);
    return summary["used_lines"].get<int64_t>();
  };
  EXPECT_EQ(train("200"), 200);
  EXPECT_EQ(train("0"), 300);
  EXPECT_EQ(train("301"), 300);
}

}  // namespace
}  // namespace qkv::testing
