// Texts of language models, and probabilities of texts and translations.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/apps/family_commands.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class ScoreCommand : public FamilyCommands {};

TEST_F(ScoreCommand, ScoreReadsPairsForATranslationModel) {
  const Outcome text = run("score %marian", {.input = "twenty-one\teinundzwanzig\nno tab\none\t\n"});
  EXPECT_EQ(text.status, 1);
  expect_parts(text.err, {"line 2: expected a source, a tab and its translation"});
  EXPECT_TRUE(text.out.ends_with("\tone\t\n")) << text.out;
  const json object = line_results("score %marian", "twenty-one\teinundzwanzig\n").at(0);
  double sum = 0;
  for (const json& one : object["token_log_probabilities"]) sum += one.get<double>();
  EXPECT_EQ(object["tokens"].size(), object["token_log_probabilities"].size());
  EXPECT_EQ(object["tokens"].back(), "</s>");
  EXPECT_NEAR(object["log_probability"].get<double>(), sum, 1e-4);
}

class LanguageCommands : public FamilyCommands, public ::testing::WithParamInterface<std::string> {
 protected:
  const std::string generate_ = concat("generate %", GetParam(), " --max-new-tokens ");
  const json expected_ = recorded(GetParam());
};

TEST_P(LanguageCommands, GenerateCompletesLikeTransformers) {
  const auto found = results(generate_ + "8", expected_);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i]["texts"][0]["ids"], expected_[i]["ids"]);
    EXPECT_EQ(found[i]["texts"][0]["text"], expected_[i]["text"]);
  }
  // One prompt, streamed.
  const std::string prompt = expected_[1]["input"], text = expected_[1]["text"];
  EXPECT_EQ(output(concat(generate_, "8 --prompt '", prompt, "'")), concat(prompt, text, "\n"));
}

TEST_P(LanguageCommands, GenerateStopsAfterOneToken) {
  const auto found = results(generate_ + "1", expected_);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i]["texts"][0]["ids"], json::array({expected_[i]["ids"][0]})) << i;
  expect_refused(generate_ + "0 --prompt a", 2, {"--max-new-tokens"});
}

TEST_P(LanguageCommands, ScoreIsTransformersProbability) {
  for (const char* field : {"log_probability", "perplexity", "token_log_probabilities"})
    expect_recorded("score %" + GetParam(), GetParam(), field);
  EXPECT_EQ(output("score %" + GetParam(), "\n"), "0.000000\tnan\t\n") << "no perplexity of no tokens";
}

TEST_P(LanguageCommands, GenerateReportsTooFewPositionsBeforehand) {
  const Outcome outcome = run(generate_ + "1000000 --json", {.input = "ab\n"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json texts = json_lines(outcome.out)[0]["texts"];
  ASSERT_FALSE(texts[0]["complete"]) << "the model ended the text itself: this test needs one that does not";
  expect_parts(outcome.err, {concat("qkv: line 1: at most ", texts[0]["ids"].size(),
                                    " of 1000000 new tokens: the model has ")});
  EXPECT_EQ(run(generate_ + "3", {.input = "ab\n"}).err, "");
}

// Chunks, kept prompts and room change no token; a budget too small is an error of the line.
TEST_P(LanguageCommands, MemoryOfTheEngineChangesNoResult) {
  const auto found = results(generate_ + "8", expected_);
  EXPECT_EQ(results(generate_ + "8 --prefill-tokens 1 --prefix-bytes 100000 --batch-tokens 0", expected_),
            found);
  EXPECT_EQ(results(generate_ + "8 --cache-bytes 1000000 --cache-dtype f32", expected_), found);
  EXPECT_NE(results(generate_ + "8 --cache-dtype bf16", expected_), found) << "rounded keys and values";
  // The goldens' keys are narrower than a block.
  const Outcome narrow = run(generate_ + "8 --cache-dtype q8_0 --prompt a");
  EXPECT_EQ(narrow.status, 2);
  expect_parts(narrow.err, {"qkv: cache dtype q8_0: expected keys and values of a multiple of 32 numbers"});
  const Outcome refused = run(generate_ + "8 --prompt a --cache-bytes 10");
  EXPECT_EQ(refused.status, 1);
  expect_parts(refused.err, {"qkv: text 1: request: expected one that needs at most", "--cache-bytes of 10"});
  expect_refused(generate_ + "8 --prompt a --prefill-tokens 0", 2,
                 {"qkv: --prefill-tokens: expected at least 1, found 0"});
  expect_refused(generate_ + "8 --prompt a --prefix-bytes -1", 2,
                 {"qkv: --prefix-bytes: expected 0 or more, found -1"});
}

TEST_P(LanguageCommands, SameSeedSameSamples) {
  const std::string line = generate_ + "9 --sample --top-k 9 --nbest 4";
  const auto first = results(line, expected_);
  EXPECT_EQ(results(line, expected_), first);
  EXPECT_NE(results(line + " --seed 2", expected_), first);
  std::set<std::string> different;
  for (const json& one : first[0]["texts"]) different.insert(one["text"].get<std::string>());
  EXPECT_GT(different.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Families, LanguageCommands, ::testing::Values("gpt2_untied_relu", "llama"));

}  // namespace
}  // namespace qkv::testing
