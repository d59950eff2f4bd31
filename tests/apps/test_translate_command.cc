// The options of `qkv translate`, with an untrained model.

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class TranslateCommand : public CommandTest {
 protected:
  TranslateCommand() { write_random_model(scratch_ / "model", scratch_.path()); }

  Outcome translate(const std::string& options, const std::string& input = "forty-two\n") const {
    return run("translate @/model --max-new-tokens 7 " + options, {.input = input});
  }
  json translate_json(const std::string& options, const std::string& input = "forty-two\n") const {
    return json::parse(output("translate @/model --max-new-tokens 7 --json --scores " + options, input));
  }
  void expect_refusal(const std::string& options, int status, const std::vector<std::string>& parts) const {
    expect_refused("translate @/model --max-new-tokens 7 " + options, status, parts, "forty-two\n");
  }
};

TEST_F(TranslateCommand, SamplesDependOnSeedAndLineOnly) {
  const std::string sample = "--sample --nbest 4 --temperature 1.3 --seed 9";
  const Outcome alone = translate(sample, "five\n");
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(count_lines_of(alone.out), 4);
  const Outcome among = translate(sample + " --threads 1 --chunk-lines 1 --batch-tokens 1",
                                  "five\nnine hundred eleven\nfive\n");
  EXPECT_EQ(among.out.substr(0, alone.out.size()), alone.out);
  EXPECT_EQ(count_lines_of(among.out), 12);
  EXPECT_EQ(among.out.find("\n3" + alone.out.substr(1, alone.out.find('\n') - 1)), std::string::npos)
      << "the same text on another line is sampled independently";
}

TEST_F(TranslateCommand, SamplingOptionsImplySampling) {
  const std::string greedy = translate("--beam 1").out, input = "forty-two\n";
  for (const std::string option :
       {"--temperature 1.3", "--top-k 50", "--top-p 0.99", "--min-p 0.001", "--seed 1"}) {
    const std::string sampled = translate(option).out;
    EXPECT_EQ(sampled, translate("--sample " + option).out) << option;
    EXPECT_NE(sampled, greedy) << option;
  }
}

TEST_F(TranslateCommand, TranslatesItsArguments) {
  const std::string lines = "forty-two\nseven\n\n", expected = translate("", lines).out;
  EXPECT_EQ(output("translate @/model forty-two seven '' --max-new-tokens 7"), expected);
  EXPECT_EQ(output("translate @/model --max-new-tokens 7 --sample forty-two seven ''"),
            translate("--sample", lines).out);
  const Outcome mixed = run("translate @/model forty-two @/model/config.json s\xff seven --max-new-tokens 7");
  EXPECT_EQ(mixed.status, 1);
  expect_parts(mixed.err, {concat("warning: '", path("model/config.json"), "' is the name of a file"),
                           "qkv: text 3: expected UTF-8", "qkv: 1 of 4 texts failed"});
  expect_parts(mixed.out, {"\nerror: text 3: expected UTF-8, found a malformed character at byte 1\n"});
}

TEST_F(TranslateCommand, NamesAFailedLineInItsPlace) {
  const std::string lines = "forty-two\n\xff\nseven\n";
  const Outcome best = translate("--nbest 2", lines);
  EXPECT_EQ(best.status, 1);
  EXPECT_EQ(count_lines_of(best.out), 5u);
  expect_parts(best.out, {"\n2\terror: line 2: expected UTF-8", "\n3\t"});
}

TEST_F(TranslateCommand, TranslationsStartWithThePrefix) {
  const Outcome outcome = translate("--prefixes", "forty-two\tzwei\nforty-two\nforty-two\t\xff\n");
  EXPECT_EQ(outcome.status, 1);
  expect_parts(outcome.err, {"line 3: prefix: expected UTF-8"});
  std::istringstream lines(outcome.out);
  std::string with, without;
  std::getline(lines, with);
  std::getline(lines, without);
  EXPECT_EQ(with.substr(0, 4), "zwei");
  EXPECT_NE(without.substr(0, 4), "zwei");
  const Outcome tall = translate("--prefixes", "two\tzwei zwei zwei zwei zwei zwei zwei zwei zwei\n");
  EXPECT_EQ(tall.status, 0) << tall.err;
  EXPECT_EQ(tall.out.substr(0, 44), "zwei zwei zwei zwei zwei zwei zwei zwei zwei")
      << "a prefix may be longer than --max-new-tokens, which does not count it";
}

TEST_F(TranslateCommand, ForbiddenWordsDoNotOccur) {
  const std::vector<std::string> tokens = translate_json("")["hypotheses"][0]["tokens"];
  ASSERT_GE(tokens.size(), 3u);
  const json without = translate_json("--no-repeat-ngram 1");
  std::vector<std::string> unique = without["hypotheses"][0]["tokens"];
  std::ranges::sort(unique);
  EXPECT_EQ(std::ranges::adjacent_find(unique), unique.end());
  const std::string text = translate("--prefixes", "forty-two\tzwei\n").out;
  const std::string next = text.substr(0, text.size() - 1);
  EXPECT_EQ(translate(concat("--prefixes --forbid '", next, "'"), "forty-two\tzwei\n").out.find(next),
            std::string::npos);
}

TEST_F(TranslateCommand, AlignsEachTokenWithTheSource) {
  const json result = translate_json("--alignments");
  const size_t source = result["source_tokens"].size();
  const json& best = result["hypotheses"][0];
  ASSERT_EQ(best["alignment"].size(), best["tokens"].size());
  for (const size_t place : best["alignment"]) EXPECT_LT(place, source);
  EXPECT_NE(translate("--alignments").out.find(" ||| "), std::string::npos);
}

TEST_F(TranslateCommand, AnEnsembleOfAModelWithItselfIsTheModel) {
  const json alone = translate_json(""), twice = translate_json("--ensemble @/model");
  EXPECT_EQ(alone["translation"], twice["translation"]);
  EXPECT_NEAR(alone["hypotheses"][0]["score"].get<double>(), twice["hypotheses"][0]["score"].get<double>(),
              1e-4);
  const text::TranslationTokenizer other =
      number_tokenizer(write_numbers(scratch_.path(), 999), 50);  // fewer pieces than the model's
  models::TransformerConfig config = models::preset("tiny");
  config = train::complete_config(config, other);
  models::Transformer stranger(config);
  nn::initialise(stranger, 1);
  const auto folder = scratch_ / "stranger";
  std::filesystem::create_directories(folder);
  other.save(folder);
  models::save_transformer(folder, stranger, {.beam = 2, .length_penalty = 1, .max_new_tokens = 30});
  expect_refusal("--ensemble @/stranger", 2, {"one source vocabulary", "60", "50"});
}

TEST_F(TranslateCommand, TracesTheSearch) {
  ASSERT_EQ(translate("--trace @/trace.json --beam 3", "two\n\nthree\n").status, 0);
  const std::vector<json> objects = json_lines(content("trace.json"));
  ASSERT_EQ(objects.size(), 3u);
  EXPECT_EQ(objects[1]["steps"].size(), 0u) << "nothing to translate";
  EXPECT_GE(objects[2]["steps"].size(), 2u);
  EXPECT_EQ(objects[2]["line"], 3);
  EXPECT_EQ(objects[2]["steps"][1][0]["hypothesis"].size(), 1u);
  expect_parts(translate("--trace /dev/full", "two\n").err, {"/dev/full: cannot be written: No space left"});
}

TEST_F(TranslateCommand, ListsAlternativesAfterAPrefix) {
  const Outcome outcome = translate("--prefixes --alternatives 3", "forty-two\tzwei\n");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(count_lines_of(outcome.out), 3);
  const json result = translate_json("--prefixes --alternatives 3", "forty-two\tzwei\n");
  std::set<std::string> next;
  for (const json& one : result["hypotheses"]) {
    EXPECT_EQ(one["text"].get<std::string>().substr(0, 4), "zwei");
    const std::vector<double> scores = one["token_log_probabilities"];
    const auto place =
        static_cast<size_t>(std::ranges::find_if(scores, [](double x) { return x != 0; }) - scores.begin());
    next.insert(one["tokens"].at(place));
  }
  EXPECT_EQ(next.size(), 3u) << result;
}

TEST_F(TranslateCommand, ScoreAndTraceIncludeTheCoveragePenalty) {
  const json without = translate_json("--beam 3"),
             with = translate_json("--beam 3 --coverage-penalty 0.5 --trace @/trace.json");
  EXPECT_LT(with["hypotheses"][0]["score"], without["hypotheses"][0]["score"]);
  const json steps = json_file("trace.json")["steps"];
  for (const json& entry : steps[0]) {
    EXPECT_LT(entry["coverage"].get<double>(), 0);
    EXPECT_NEAR(
        entry["score"].get<double>(),
        entry["total"].get<double>() / entry["penalty"].get<double>() + entry["coverage"].get<double>(),
        1e-5);
  }
}

TEST_F(TranslateCommand, MemoryOfTheEngineChangesNoResult) {
  std::string input;
  for (int i = 0; i < 40; ++i) input += "forty-two\nseven hundred eleven\n";
  const Outcome expected = translate("--scores", input);
  ASSERT_EQ(expected.status, 0) << expected.err;
  // What one line of 13 tokens can need: 2 layers of keys and values, of the line and of 2 hypotheses.
  const Outcome little = translate("--scores --cache-bytes 100000 --batch-tokens 0", input);
  EXPECT_EQ(little.out, expected.out) << little.err;
  const Outcome none = translate("--cache-bytes 1000", "forty-two\n");
  EXPECT_EQ(none.status, 1);
  expect_parts(none.err,
               {"qkv: line 1: request: expected one that needs at most the engine's --cache-bytes of 1000"});
  expect_refusal("--cache-bytes -1", 2, {"--cache-bytes: expected 0", "-1"});
}

TEST_F(TranslateCommand, RoundedKeysAndValuesChangeTheScoresALittle) {
  const json f32 = translate_json("");
  const double expected = f32["hypotheses"][0]["score"];
  for (const std::string dtype : {"bf16", "q8_0"}) {
    const double found = translate_json("--cache-dtype " + dtype)["hypotheses"][0]["score"];
    EXPECT_NE(found, expected) << dtype;
    EXPECT_NEAR(found, expected, 0.05 * std::abs(expected)) << dtype;
  }
  EXPECT_EQ(translate_json("--cache-dtype f32"), f32);
  expect_refusal("--cache-dtype bf61", 2,
                 {"--cache-dtype: expected one of f32, bf16, q8_0, found 'bf61'; did you mean 'bf16'?"});
}

TEST_F(TranslateCommand, RefusesContradictions) {
  expect_refusal("--sample --beam 4", 2, {"--beam: expected", "1", "4"});
  expect_refusal("--top-k 4 --beam 4", 2, {"--beam: expected", "1", "4"});
  expect_refusal("--sample --alternatives 4", 2, {"alternatives"});
  expect_refusal("--nbest 2 --alternatives 4", 2, {"--nbest", "--alternatives"});
  expect_refusal("--coverage-penalty -1", 2, {"qkv: --coverage-penalty: expected", "-1"});
  expect_refusal("--sample --temperature 0", 2, {"--temperature: expected"});
  expect_refusal("--sample --trace @/t", 2, {"trace"});
  expect_refusal("--trace /nonexistent/trace.json", 1, {"/nonexistent/trace.json"});
  expect_refusal("--forbid ''", 2, {"--forbid"});
  expect_refusal("--forbid b\xff", 2, {"--forbid: ", "expected UTF-8"});
  expect_refusal("--ensemble @/no", 1, {"no"});
}

}  // namespace
}  // namespace qkv::testing
