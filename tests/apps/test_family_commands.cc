// The commands for folders of other families, compared with transformers on the same texts
// (tests/golden/families_texts.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/apps/json_results.h"
#include "tests/apps/run.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;

std::string folder(const std::string& name) {
  return (std::filesystem::path(QKV_TEST_DATA) / "models" / "golden" / name).string();
}

json expected_of(const std::string& name) { return json::parse(read_file(folder(name) + "/texts.json")); }

std::string inputs(const json& expected) {
  std::string lines;
  for (const json& one : expected) lines += one["input"].get<std::string>() + "\n";
  return lines;
}

// Runs a command on all inputs of a folder, also with other threads and chunks, which must not affect
// results.
std::vector<json> run_json(const std::vector<std::string>& arguments, const json& expected) {
  std::vector<std::string> with_json = arguments;
  with_json.insert(with_json.end(), {"--json", "--threads", "1"});
  const Outcome outcome = run_qkv(with_json, {.input = inputs(expected)});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  with_json.back() = "3";
  with_json.insert(with_json.end(), {"--chunk-lines", "1"});
  EXPECT_EQ(run_qkv(with_json, {.input = inputs(expected)}).out, outcome.out);
  std::vector<json> lines = json_lines(outcome.out);
  EXPECT_EQ(lines.size(), expected.size());
  lines.resize(expected.size());
  return lines;
}

TEST(FamilyCommands, FillMaskGuessesWhatTransformersDoes) {
  const json expected = expected_of("bert_masked");
  const auto found = run_json({"fill-mask", folder("bert_masked"), "--top", "3"}, expected);
  for (size_t i = 0; i < found.size(); ++i) expect_same(found[i]["masks"], expected[i]["masks"], "masks");

  const Outcome text =
      run_qkv({"fill-mask", folder("bert_masked"), "--top", "1"}, {.input = "a red [MASK]\n"});
  const json& best = expected[1]["masks"][0][0];
  EXPECT_EQ(text.out.substr(0, 4), "1\t1\t");
  EXPECT_NE(
      text.out.find("\t" + best["token"].get<std::string>() + "\t" + best["text"].get<std::string>() + "\n"),
      std::string::npos)
      << text.out;
}

TEST(FamilyCommands, ClassifyLabelsTextsAndPairs) {
  const json expected = expected_of("bert_texts");
  const auto found = run_json({"classify", folder("bert_texts"), "--pairs"}, expected);
  for (size_t i = 0; i < found.size(); ++i) expect_same(found[i]["labels"], expected[i]["labels"], "labels");
  const Outcome text = run_qkv({"classify", folder("bert_texts")}, {.input = "a red dog\n"});
  EXPECT_TRUE(text.out.starts_with(expected[1]["labels"][0]["label"].get<std::string>() + "\t")) << text.out;
}

// An encoder-decoder scores pairs; an error concerns its line.
TEST(FamilyCommands, ScoreTakesPairsOfATranslationModel) {
  const std::string marian = (std::filesystem::path(QKV_TEST_DATA) / "pipelines/golden/marian").string();
  const Outcome text = run_qkv({"score", marian}, {.input = "twenty-one\teinundzwanzig\nno tab\none\t\n"});
  EXPECT_EQ(text.status, 1);
  EXPECT_NE(text.err.find("line 2: expected a source, a tab and its translation"), std::string::npos)
      << text.err;
  const Outcome scored = run_qkv({"score", marian, "--json"}, {.input = "twenty-one\teinundzwanzig\n"});
  ASSERT_EQ(scored.status, 0) << scored.err;
  const json object = json_lines(scored.out).at(0);
  double sum = 0;
  for (const json& one : object["token_log_probabilities"]) sum += one.get<double>();
  EXPECT_EQ(object["tokens"].size(), object["token_log_probabilities"].size());
  EXPECT_EQ(object["tokens"].back(), "</s>");
  EXPECT_NEAR(object["log_probability"].get<double>(), sum, 1e-4);
  EXPECT_TRUE(text.out.ends_with("\tone\t\n")) << text.out;
}

TEST(FamilyCommands, TagLabelsTokens) {
  const json expected = expected_of("bert_tokens");
  const auto found = run_json({"tag", folder("bert_tokens")}, expected);
  for (size_t i = 0; i < found.size(); ++i) expect_same(found[i]["tokens"], expected[i]["tokens"], "tokens");
  const Outcome text = run_qkv({"tag", folder("bert_tokens")}, {.input = "a red dog\n"});
  std::string line;
  for (const json& token : expected[1]["tokens"]) {
    line += concat(line.empty() ? "" : " ", token["text"].get<std::string>(), "/",
                   token["label"].get<std::string>());
  }
  EXPECT_EQ(text.out, line + "\n");
}

// A word of several tokens has the label of the first, and all its characters.
TEST(FamilyCommands, TagLabelsWords) {
  const std::string input = "the man, a red-dog\tsmall  ";
  const auto tagged = [&](const std::string& unit, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"tag", folder("bert_tokens"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json::parse(run_qkv(arguments, {.input = input + "\n"}).out).at(unit);
  };
  const json tokens = tagged("tokens", {}), words = tagged("words", {"--words"});
  ASSERT_EQ(words.size(), 5u);
  EXPECT_GT(tokens.size(), words.size());
  const std::vector<std::string> expected{"the", "man,", "a", "red-dog", "small"};
  for (size_t i = 0; i < words.size(); ++i) {
    const json& word = words[i];
    EXPECT_EQ(word["text"], expected[i]);
    EXPECT_EQ(input.substr(word["begin"], word["end"].get<size_t>() - word["begin"].get<size_t>()),
              expected[i]);
    const auto first =
        std::ranges::find_if(tokens, [&](const json& token) { return token["begin"] == word["begin"]; });
    ASSERT_NE(first, tokens.end());
    EXPECT_EQ(word["label"], (*first)["label"]);
    EXPECT_EQ(word["probability"], (*first)["probability"]);
  }
}

TEST(FamilyCommands, EmbedPoolsInEachWay) {
  const json expected = expected_of("bert_base");
  const auto check = [&](std::vector<std::string> options, const char* name) {
    options.insert(options.begin(), {"embed", folder("bert_base")});
    const auto found = run_json(options, expected);
    for (size_t i = 0; i < found.size(); ++i) expect_same(found[i]["vector"], expected[i][name], name);
  };
  check({}, "mean");
  check({"--pool", "cls"}, "cls");
  check({"--pool", "pooler"}, "pooler");
  check({"--normalize"}, "normalized");
}

// The folder's files set the defaults; the command line overrides them.
TEST(FamilyCommands, EmbedDoesWhatAFolderOfSentenceTransformersSays) {
  const json golden = json::parse(read_file(QKV_TEST_DATA "/pipelines/golden/sentence_vectors.json"));
  const auto normalized = std::ranges::find(golden["cases"], "prompted_to_the_positions",
                                            [](const json& one) { return one["name"].get<std::string>(); });
  ASSERT_NE(normalized, golden["cases"].end());
  const Scratch model;
  std::filesystem::copy(folder("bert_base"), model.path());
  for (const auto& [name, content] : (*normalized)["files"].items()) {
    std::filesystem::create_directories((model / name).parent_path());
    model.write(name, content.dump());
  }
  json lines = json::array();
  for (const json& text : golden["texts"]) lines.push_back({{"input", text}});
  const auto found = run_json({"embed", model.path().string()}, lines);
  for (size_t i = 0; i < found.size(); ++i)
    expect_same(found[i]["vector"], (*normalized)["vectors"][i], "vector");

  const json plain = expected_of("bert_base");
  const auto over =
      run_json({"embed", model.path().string(), "--pool", "cls", "--no-normalize", "--prompt", ""}, plain);
  for (size_t i = 0; i < over.size(); ++i) expect_same(over[i]["vector"], plain[i]["cls"], "cls");
  EXPECT_EQ(
      run_qkv({"embed", model.path().string(), "--max-length", "4", "--prompt", ""}, {.input = "a red dog\n"})
          .out,
      run_qkv({"embed", model.path().string(), "--prompt", ""}, {.input = "a red\n"}).out);
  // The modules' files are copied too.
  const std::string kept = (model / "kept").string();
  ASSERT_EQ(run_qkv({"quantize", model.path().string(), "--dtype", "bf16", "--out", kept}).status, 0);
  EXPECT_EQ(run_qkv({"embed", kept}, {.input = "a red dog\n"}).out,
            run_qkv({"embed", model.path().string(), "--dtype", "bf16"}, {.input = "a red dog\n"}).out);
  model.write("modules.json", R"([{"type": "x.Transformer", "path": "../elsewhere"}])");
  expect_failure(run_qkv({"quantize", model.path().string(), "--dtype", "bf16", "--out", kept + "-not"}), 1,
                 {"modules.json: [0].path: ", "../elsewhere"});
  EXPECT_FALSE(std::filesystem::exists(kept + "-not"));
  expect_failure(run_qkv({"embed", folder("vit_base"), "--prompt", "a"}, {.input = "x\n"}), 2,
                 {"--prompt", "only for text models"});
}

class LanguageCommands : public ::testing::TestWithParam<std::string> {};

TEST_P(LanguageCommands, GenerateWritesWhatTransformersDoes) {
  const json expected = expected_of(GetParam());
  const auto found = run_json({"generate", folder(GetParam()), "--max-new-tokens", "8"}, expected);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i]["texts"][0]["ids"], expected[i]["ids"]);
    EXPECT_EQ(found[i]["texts"][0]["text"], expected[i]["text"]);
  }
  // One prompt, streamed.
  const std::string prompt = expected[1]["input"];
  const Outcome streamed =
      run_qkv({"generate", folder(GetParam()), "--max-new-tokens", "8", "--prompt", prompt});
  EXPECT_EQ(streamed.status, 0) << streamed.err;
  const std::string text = expected[1]["text"];
  EXPECT_TRUE(streamed.out.starts_with(prompt)) << streamed.out;
  EXPECT_EQ(streamed.out.substr(prompt.size()), text + "\n");
}

TEST_P(LanguageCommands, GenerateWritesOneTokenWhereNoMoreAreWanted) {
  const json expected = expected_of(GetParam());
  const auto found = run_json({"generate", folder(GetParam()), "--max-new-tokens", "1"}, expected);
  for (size_t i = 0; i < found.size(); ++i) {
    const json ids = found[i]["texts"][0]["ids"];
    EXPECT_EQ(ids, json::array({expected[i]["ids"][0]})) << i;
  }
  expect_failure(run_qkv({"generate", folder(GetParam()), "--prompt", "a", "--max-new-tokens", "0"}), 2,
                 {"--max-new-tokens"});
}

TEST_P(LanguageCommands, ScoreIsTransformersProbability) {
  const json expected = expected_of(GetParam());
  const auto found = run_json({"score", folder(GetParam())}, expected);
  for (size_t i = 0; i < found.size(); ++i) {
    for (const char* name : {"log_probability", "perplexity", "token_log_probabilities"}) {
      expect_same(found[i][name], expected[i][name], name);
    }
  }
}

TEST_P(LanguageCommands, NoPerplexityOfNothing) {
  const std::vector<std::string> score = {"score", folder(GetParam())};
  EXPECT_EQ(run_qkv(score, {.input = "\n"}).out, "0.000000\tnan\t\n");
}

TEST_P(LanguageCommands, GenerateSaysWhereTheModelsPositionsEnd) {
  const Outcome outcome =
      run_qkv({"generate", folder(GetParam()), "--max-new-tokens", "1000000", "--json"}, {.input = "ab\n"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json texts = json_lines(outcome.out)[0]["texts"];
  ASSERT_FALSE(texts[0]["complete"]) << "the model ended the text itself: this test needs one that does not";
  EXPECT_NE(outcome.err.find(concat("qkv: line 1: stopped after ", texts[0]["ids"].size(),
                                    " of 1000000 tokens, at the end of the model's positions")),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(run_qkv({"generate", folder(GetParam()), "--max-new-tokens", "3"}, {.input = "ab\n"}).err, "");
}

// Chunks, kept prompts and room change no token; a budget too small is an error of the line.
TEST_P(LanguageCommands, MemoryOfTheEngineChangesNoResult) {
  const json expected = expected_of(GetParam());
  const std::vector<std::string> plain = {"generate", folder(GetParam()), "--max-new-tokens", "8"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = plain;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_json(arguments, expected);
  };
  const auto found = with({});
  EXPECT_EQ(with({"--prefill-tokens", "1", "--prefix-positions", "64", "--batch-tokens", "0"}), found);
  EXPECT_EQ(with({"--cache-bytes", "1000000", "--cache-dtype", "f32"}), found);
  EXPECT_NE(with({"--cache-dtype", "bf16"}), found) << "rounded keys and values";
  expect_failure(run_qkv({"generate", folder(GetParam()), "--prompt", "a", "--cache-bytes", "10"}), 1,
                 {"--cache-bytes of 10"});
  expect_failure(run_qkv({"generate", folder(GetParam()), "--prompt", "a", "--prefill-tokens", "0"}), 2,
                 {"qkv: --prefill-tokens: expected at least 1, found 0"});
  expect_failure(run_qkv({"generate", folder(GetParam()), "--prompt", "a", "--prefix-positions", "-1"}), 2,
                 {"qkv: --prefix-positions: expected at least 0, found -1"});
}

TEST_P(LanguageCommands, DrawsTheSameForTheSameSeed) {
  const json expected = expected_of(GetParam());
  std::vector<std::string> arguments{"generate", folder(GetParam()), "--sample", "--top-k", "9", "--nbest",
                                     "4",        "--max-new-tokens", "9"};
  const auto first = run_json(arguments, expected), again = run_json(arguments, expected);
  EXPECT_EQ(first, again);
  arguments.insert(arguments.end(), {"--seed", "2"});
  EXPECT_NE(run_json(arguments, expected), first);
  std::set<std::string> different;
  for (const json& one : first[0]["texts"]) different.insert(one["text"].get<std::string>());
  EXPECT_GT(different.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Families, LanguageCommands, ::testing::Values("gpt2_untied_relu", "llama"));

TEST(FamilyCommands, TakeWeightsInAnyForm) {
  const Scratch scratch;
  const auto check = [&](const char* command, const char* model, std::vector<std::string> more) {
    const json expected = expected_of(model);
    const auto run = [&](const std::string& from, const std::vector<std::string>& weights) {
      std::vector<std::string> arguments{command, from};
      arguments.insert(arguments.end(), more.begin(), more.end());
      arguments.insert(arguments.end(), weights.begin(), weights.end());
      return run_json(arguments, expected);
    };
    const auto exact = run(folder(model), {});
    for (const std::string form : {"bf16", "int8"}) {
      const std::string rounded = (scratch / (command + form)).string();
      const Outcome quantized = run_qkv({"quantize", folder(model), "--dtype", form, "--out", rounded});
      ASSERT_EQ(quantized.status, 0) << quantized.err;
      EXPECT_NE(quantized.err.find(form), std::string::npos) << quantized.err;
      EXPECT_EQ(run(rounded, {}), run(folder(model), {"--dtype", form})) << command << ", " << form;
      EXPECT_NE(run(rounded, {}), exact) << command << ", " << form;
    }
  };
  check("generate", "llama", {"--max-new-tokens", "4"});
  check("score", "gpt2_untied_relu", {});
  check("fill-mask", "bert_masked", {});
  check("classify", "bert_texts", {});
  check("tag", "bert_tokens", {});
  check("embed", "bert_base", {"--pool", "pooler"});
}

TEST(FamilyCommands, QuantizeReadsShards) {
  const Scratch scratch;
  const std::string out = (scratch / "out").string();
  const Outcome outcome =
      run_qkv({"quantize", folder("llama_grouped+shards"), "--dtype", "bf16", "--out", out});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("no qkv_proof.json: the folder has no tokenizer"), std::string::npos)
      << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(out) / "qkv_proof.json"));
  const auto bytes = [](const std::string& from, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"inspect", from, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json::parse(run_qkv(arguments).out)["weight_bytes"];
  };
  EXPECT_EQ(bytes(out, {}), bytes(folder("llama_grouped+shards"), {"--dtype", "bf16"}));
}

TEST(FamilyCommands, InspectCountsBytesInAnyForm) {
  const auto inspect = [](const std::string& form) {
    const Outcome outcome = run_qkv({"inspect", folder("vit_images"), "--dtype", form, "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out);
  };
  const json f32 = inspect("f32"), int8 = inspect("int8");
  EXPECT_EQ(int8["dtype"], "int8");
  EXPECT_EQ(int8["parameters"], f32["parameters"]);
  EXPECT_EQ(f32["weight_bytes"], 4 * f32["parameters"].get<int64_t>());
  int64_t sum = 0;
  for (const json& part : int8["parts"]) sum += part["weight_bytes"].get<int64_t>();
  EXPECT_EQ(int8["weight_bytes"], sum);
  EXPECT_LT(sum, f32["weight_bytes"].get<int64_t>());
}

TEST(FamilyCommands, BadLinesLeaveTheOthersUnharmed) {
  std::string long_line = "the";
  for (int i = 0; i < 30; ++i) long_line += " dog";
  const std::string lines = "the man\n" + long_line + "\nbad \xff bytes\na red dog\n";
  const auto check = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = run_qkv(arguments, {.input = lines});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("line 2: "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("at most 20 tokens"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("line 3: expected UTF-8"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("2 of 4 lines"), std::string::npos) << outcome.err;
    const Outcome good = run_qkv(arguments, {.input = "the man\na red dog\n"});
    EXPECT_EQ(good.status, 0) << good.err;
    const std::string first = good.out.substr(0, good.out.find('\n') + 1);
    EXPECT_EQ(outcome.out, first + "\n\n" + good.out.substr(first.size()));
  };
  check({"generate", folder("gpt2_untied_relu"), "--max-new-tokens", "3"});
  check({"score", folder("gpt2_untied_relu")});
  check({"classify", folder("bert_texts")});
  check({"tag", folder("bert_tokens")});
  check({"embed", folder("bert_base")});
}

TEST(FamilyCommands, RefuseModelsWithoutTheHead) {
  const RunOptions line{.input = "the man\n"};
  expect_failure(run_qkv({"fill-mask", folder("bert_texts")}, line), 2, {"masked-language head"});
  expect_failure(run_qkv({"classify", folder("bert_masked")}, line), 2, {"a text classification head"});
  expect_failure(run_qkv({"tag", folder("bert_texts")}, line), 2, {"a token classification head"});
  expect_failure(run_qkv({"embed", folder("bert_masked"), "--pool", "pooler"}, line), 2, {"a pooler"});
  expect_failure(run_qkv({"generate", folder("bert_base"), "--prompt", "a"}), 1,
                 {"model_type", "gpt2, llama"});
  expect_failure(run_qkv({"embed", folder("gpt2_untied_relu")}, line), 1,
                 {"model_type", "bert, roberta, distilbert"});
  expect_failure(run_qkv({"generate", folder("nowhere"), "--prompt", "a"}), 1, {"there is no such folder"});
}

TEST(FamilyCommands, AttentionOfAPairAndOfATranslation) {
  const Scratch scratch;
  const auto draw = [&](std::vector<std::string> arguments, const std::string& name) {
    const std::string file = (scratch / name).string();
    arguments.insert(arguments.begin(), "attention");
    arguments.insert(arguments.end(), {"--out", file});
    const Outcome outcome = run_qkv(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return read_file(file);
  };
  const std::vector<std::string> pair{folder("bert_texts"), "--source", "a red dog", "--pair",
                                      "one small house"};
  const json report = json::parse(draw(pair, "pair.json"));
  const size_t tokens = report["source_tokens"].size();
  EXPECT_EQ(report["source_tokens"][0], "[CLS]");
  const auto second = report["second_text"].get<size_t>();
  ASSERT_LT(second, tokens);
  EXPECT_EQ(report["source_tokens"][second - 1], "[SEP]");
  for (const json& layer : report["layers"]) {
    ASSERT_EQ(layer["statistics"].size(), layer["heads"].size());
    for (const json& head : layer["statistics"]) {
      EXPECT_GT(head["entropy"].get<double>(), 0);
      EXPECT_LE(head["entropy"].get<double>(), std::log2(static_cast<double>(tokens)) + 1e-6);
      EXPECT_GT(head["across"].get<double>(), 0);
      EXPECT_LT(head["across"].get<double>(), 1);
    }
  }
  // In int8 other weights, of the same tokens.
  std::vector<std::string> in_int8 = pair;
  in_int8.insert(in_int8.end(), {"--dtype", "int8"});
  const json rounded = json::parse(draw(in_int8, "int8.json"));
  EXPECT_EQ(rounded["source_tokens"], report["source_tokens"]);
  const json weights = report["layers"].flatten(), near = rounded["layers"].flatten();
  double largest = 0;
  for (const auto& [name, weight] : weights.items()) {
    if (name.find("/heads/") == std::string::npos) continue;
    largest = std::max(largest, std::abs(weight.get<double>() - near.at(name).get<double>()));
  }
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 0.05);
  EXPECT_NE(draw(pair, "pair.html").find("\"second\":" + std::to_string(second)), std::string::npos);
  // A panel's boundary: one line across, one down.
  const std::string svg = draw(pair, "pair.svg"),
                    whole = draw({folder("bert_texts"), "--source", "a"}, "one.svg");
  const auto lines = [](const std::string& drawing) {
    size_t count = 0;
    for (size_t at = 0; (at = drawing.find("stroke-width=\"1\"", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(lines(svg), lines(whole) + 2 * report["layers"].size() * report["layers"][0]["heads"].size());

  // Tiles of three tokens, whose statistics are those of the tokens.
  std::vector<std::string> in_tiles = pair;
  in_tiles.insert(in_tiles.end(), {"--tile", "3"});
  const json tiles = json::parse(draw(in_tiles, "tiles.json"));
  EXPECT_EQ(tiles["tile"], 3);
  EXPECT_EQ(tiles["tokens"], tokens);
  EXPECT_EQ(tiles["source_tokens"].size(), (tokens + 2) / 3);
  for (size_t i = 0; i < report["layers"].size(); ++i)
    EXPECT_EQ(tiles["layers"][i]["statistics"], report["layers"][i]["statistics"]);

  const std::string marian = (std::filesystem::path(QKV_TEST_DATA) / "pipelines/golden/marian").string();
  const json translation = json::parse(draw({marian, "--source", "forty"}, "translation.json"));
  ASSERT_EQ(translation["alignment"].size(), translation["target_tokens"].size());
  for (const json& source : translation["alignment"])
    EXPECT_LT(source.get<size_t>(), translation["source_tokens"].size());

  const std::string out = (scratch / "a.json").string();
  expect_failure(run_qkv({"attention", marian, "--source", "a", "--tile", "2", "--out", out}), 2,
                 {"--tile: not for encoder-decoders"});
  expect_failure(run_qkv({"attention", folder("llama"), "--source", "a", "--tile", "-2", "--out", out}), 2,
                 {"tile", "-2"});
  for (const std::string& other : {folder("llama"), marian}) {
    expect_failure(run_qkv({"attention", other, "--source", "a", "--pair", "b", "--out", out}), 2,
                   {"--pair: only for text encoders"});
  }
}

}  // namespace
