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

class BleuOfFiles : public CommandTest {
 protected:
  BleuOfFiles() {
    scratch_.write("hyp", "The cat sat on the mat.\n");
    scratch_.write("ref", "The cat is sitting on the mat.\n");
    scratch_.write("two", "a\nb\n");
    scratch_.write("three", "a\nb\nc\n");
    scratch_.write("empty", "");
    scratch_.write("bad", "a\nb\xff\n");
  }
};

TEST_F(BleuOfFiles, IsWrittenAsJson) {
  const nlohmann::json found = result("bleu @/hyp @/ref");
  const double score = found["bleu"]["score"];
  char printed[32];
  std::snprintf(printed, sizeof(printed), " = %.4f ", score);
  EXPECT_GT(score, 10);
  EXPECT_LT(score, 90);
  expect_parts(output("bleu @/hyp @/ref --width 4"), {printed});
  EXPECT_EQ(found["bleu"]["precisions"].size(), 4);
  EXPECT_EQ(found["bleu"]["hypothesis_length"], 7);
  EXPECT_TRUE(std::string(found["chrf2"]["signature"]).starts_with("nrefs:1|case:mixed"));
  const std::string chrf = output("bleu @/hyp @/ref --chrf");
  EXPECT_TRUE(chrf.starts_with("chrF2|")) << chrf;
  EXPECT_EQ(count_lines_of(chrf), 1);
}

TEST_F(BleuOfFiles, RefusesFilesThatCannotBeCompared) {
  expect_refused("bleu @/two @/three", 1, {path("three"), "expected 2 lines", "found 3"});
  expect_refused("bleu @/empty @/two", 1, {path("empty"), "empty file"});
  expect_refused("bleu @/two @/empty", 1, {path("empty"), "empty file"});
  expect_refused("bleu @/two @/bad", 1, {path("bad"), "UTF-8", "2"});
  expect_refused("bleu @/two @/missing", 1, {path("missing")});
  expect_refused("bleu @/two", 2, {"REF"});
}

}  // namespace
}  // namespace qkv::testing
