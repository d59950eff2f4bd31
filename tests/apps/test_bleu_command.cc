#include <nlohmann/json.hpp>

#include "tests/apps/run.h"
#include "tests/metrics/golden.h"

namespace qkv::testing {
namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// sacreBLEU's lines for the same texts.
TEST(BleuCommand, PrintsSacrebleusLines) {
  const auto corpora = golden::read_corpora();
  int compared = 0;
  const auto bleu_rows = golden::read("bleu.tsv"), chrf_rows = golden::read("chrf.tsv");
  for (const auto& row : bleu_rows) {
    // corpus, tokenizer, smoothing, lower case, effective order, largest order, ...
    if (row[1] != "13a" || row[2] != "exp" || row[4] != "0" || row[5] != "4") continue;
    const golden::Corpus& corpus = corpora.at(row[0]);
    // In a file, a segment is one line.
    const auto is_line = [](const std::string& text) { return text.find_first_of("\n\r") == text.npos; };
    bool lines = std::ranges::all_of(corpus.hypotheses, is_line);
    for (const auto& set : corpus.reference_sets) lines = lines && std::ranges::all_of(set, is_line);
    if (!lines) continue;
    const Scratch scratch;
    std::vector<std::string> arguments = {"bleu", "-"};
    for (size_t set = 0; set < corpus.reference_sets.size(); ++set)
      arguments.push_back(
          scratch.write("ref" + std::to_string(set), joined(corpus.reference_sets[set])).string());
    if (row[3] == "1") arguments.push_back("--lowercase");
    const Outcome outcome = run_qkv(arguments, {.input = joined(corpus.hypotheses)});
    if (outcome.err.find("UTF-8") != std::string::npos)
      continue;  // the library repairs it, the program rejects it
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::string expected = golden::with_own_version(row.back()) + "\n";
    for (const auto& chrf : chrf_rows) {
      // corpus, character order, word order, beta, lower case, white space, eps smoothing, ...
      if (chrf[0] == row[0] && chrf[1] == "6" && chrf[2] == "0" && chrf[3] == "2" && chrf[4] == row[3] &&
          chrf[5] == "0" && chrf[6] == "0") {
        expected += golden::with_own_version(chrf.back()) + "\n";
      }
    }
    EXPECT_EQ(outcome.out, expected) << row[0];
    ++compared;
  }
  EXPECT_GE(compared, 2);
}

TEST(BleuCommand, WritesJson) {
  const Scratch scratch;
  const std::string hyp = scratch.write("hyp", "The cat sat on the mat.\n").string();
  const std::string ref = scratch.write("ref", "The cat is sitting on the mat.\n").string();
  const Outcome text = run_qkv({"bleu", hyp, ref, "--width", "4"});
  const Outcome found = run_qkv({"bleu", hyp, ref, "--json"});
  ASSERT_EQ(found.status, 0) << found.err;
  const auto result = nlohmann::json::parse(found.out);
  const double score = result["bleu"]["score"];
  char printed[32];
  std::snprintf(printed, sizeof(printed), " = %.4f ", score);
  EXPECT_GT(score, 10);
  EXPECT_LT(score, 90);
  EXPECT_NE(text.out.find(printed), std::string::npos) << text.out;
  EXPECT_EQ(result["bleu"]["precisions"].size(), 4);
  EXPECT_EQ(result["bleu"]["hypothesis_length"], 7);
  EXPECT_TRUE(std::string(result["chrf2"]["signature"]).starts_with("nrefs:1|case:mixed"));
  const Outcome chrf = run_qkv({"bleu", hyp, ref, "--chrf"});
  EXPECT_TRUE(chrf.out.starts_with("chrF2|")) << chrf.out;
  EXPECT_EQ(count_lines_of(chrf.out), 1);
}

TEST(BleuCommand, RefusesWhatCannotBeCompared) {
  const Scratch scratch;
  const std::string two = scratch.write("two", "a\nb\n").string();
  const std::string three = scratch.write("three", "a\nb\nc\n").string();
  const std::string empty = scratch.write("empty", "").string();
  const std::string bad = scratch.write("bad", "a\nb\xff\n").string();
  const std::string missing = (scratch / "missing").string();
  expect_failure(run_qkv({"bleu", two, three}), 1, {three, "expected 2 lines", "found 3"});
  expect_failure(run_qkv({"bleu", empty, two}), 1, {empty, "empty file"});
  expect_failure(run_qkv({"bleu", two, empty}), 1, {empty, "empty file"});
  expect_failure(run_qkv({"bleu", two, bad}), 1, {bad, "UTF-8", "2"});
  expect_failure(run_qkv({"bleu", two, missing}), 1, {missing});
  expect_failure(run_qkv({"bleu", two}), 2, {"REF"});
}

}  // namespace
}  // namespace qkv::testing
