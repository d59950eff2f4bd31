// The commands for folders of other families, compared with transformers on the same texts
// (tests/golden/families_texts.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/apps/json_results.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class FamilyCommands : public CommandTest {
 protected:
  static json recorded(const std::string& model) {
    return json::parse(read_file(recorded_model(model) + "/texts.json"));
  }
  std::vector<json> results(const std::string& line, const json& expected) const {
    std::string inputs;
    for (const json& one : expected) inputs += one["input"].get<std::string>() + "\n";
    return line_results(line, inputs);
  }
  void expect_recorded(const std::string& line, const std::string& model, const std::string& field,
                       std::string recorded_as = {}) const {
    if (recorded_as.empty()) recorded_as = field;
    const json expected = recorded(model);
    const auto found = results(line, expected);
    for (size_t i = 0; i < found.size(); ++i) expect_same(found[i][field], expected[i][recorded_as], line);
  }
  // Writes @/model with a recorded case of sentence-transformers' files, which has these vectors.
  void expect_vectors(const std::string& name, const std::string& options = {}) const {
    const std::filesystem::path recordings = QKV_TEST_DATA "/pipelines/golden";
    const json golden = json::parse(read_file(recordings / "sentence_vectors.json"));
    const auto one = std::ranges::find(golden["cases"], name,
                                       [](const json& it) { return it["name"].get<std::string>(); });
    ASSERT_NE(one, golden["cases"].end());
    std::filesystem::copy(recorded_model((*one)["model"]), scratch_ / "model");
    std::filesystem::copy(recordings / "dense", scratch_ / "model", std::filesystem::copy_options::recursive);
    for (const auto& [file, content] : (*one)["files"].items()) {
      std::filesystem::create_directories((scratch_ / "model" / file).parent_path());
      scratch_.write("model/" + file, content.dump());
    }
    json lines = json::array();
    for (const json& text : golden["texts"]) lines.push_back({{"input", text}});
    const auto found = results("embed @/model" + options, lines);
    for (size_t i = 0; i < found.size(); ++i) expect_same(found[i]["vector"], (*one)["vectors"][i], "vector");
  }
};

TEST_F(FamilyCommands, FillMaskPredictsLikeTransformers) {
  expect_recorded("fill-mask %bert_masked --top 3", "bert_masked", "masks");
  const std::string text = output("fill-mask %bert_masked --top 1", "a red [MASK]\n");
  const json best = recorded("bert_masked")[1]["masks"][0][0];
  EXPECT_EQ(text.substr(0, 4), "1\t1\t");
  expect_parts(text,
               {concat("\t", best["token"].get<std::string>(), "\t", best["text"].get<std::string>(), "\n")});
}

TEST_F(FamilyCommands, ClassifyLabelsTextsAndPairs) {
  expect_recorded("classify %bert_texts --pairs", "bert_texts", "labels");
  const std::string text = output("classify %bert_texts", "a red dog\n");
  const std::string label = recorded("bert_texts")[1]["labels"][0]["label"];
  EXPECT_TRUE(text.starts_with(label + "\t")) << text;
}

// An encoder-decoder scores pairs; an error concerns its line.
TEST_F(FamilyCommands, ScoreReadsPairsForATranslationModel) {
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

TEST_F(FamilyCommands, TagLabelsTokens) {
  expect_recorded("tag %bert_tokens", "bert_tokens", "tokens");
  std::string line;
  const json expected = recorded("bert_tokens");
  for (const json& token : expected[1]["tokens"]) {
    line += concat(line.empty() ? "" : " ", token["text"].get<std::string>(), "/",
                   token["label"].get<std::string>());
  }
  EXPECT_EQ(output("tag %bert_tokens", "a red dog\n"), line + "\n");
}

std::string six_digits(double number) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(6) << number;
  return text.str();
}

TEST_F(FamilyCommands, AnswerPrintsSpansOfTexts) {
  const std::string command = "answer %bert_spans --question 'the dog sleeps?' --shared 3 --window 14";
  expect_recorded(command + " --top 3", "bert_spans", "answers");
  const json expected = recorded("bert_spans");
  std::string all, best;
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string text = expected[i]["input"];
    const json answers = line_results(command + " --top 3", text + "\n").at(0)["answers"];
    for (const json& one : answers) {
      all += concat(i + 1, "\t", six_digits(one["probability"]), "\t", one["text"].get<std::string>(), "\n");
      EXPECT_EQ(one["text"],
                text.substr(one["begin"], one["end"].get<size_t>() - one["begin"].get<size_t>()));
    }
    best += answers[0]["text"].get<std::string>() + "\n";
  }
  std::string lines;
  for (const json& one : expected) lines += one["input"].get<std::string>() + "\n";
  EXPECT_EQ(output(command + " --top 3", lines), all);
  EXPECT_EQ(output(command, lines), best);
}

// The question's other side: many questions about one text, which may have several lines.
TEST_F(FamilyCommands, AnswerQuestionsAboutAFile) {
  scratch_.write("text.txt", "a red dog\nsleeps in the house");
  const std::string command = "answer %bert_spans --context @/text.txt --max-answer-tokens 4";
  const json answers = line_results(command + " --top 50", "the dog?\na man?\n").at(0)["answers"];
  const auto over_lines =
      std::ranges::find_if(answers, [](const json& one) { return one["text"] == "dog\nsleeps"; });
  ASSERT_NE(over_lines, answers.end());
  expect_parts(output(command + " --top 50", "the dog?\n"), {"\tdog sleeps\n"});
  EXPECT_NE(answers, line_results(command + " --top 50", "a man?\n").at(0)["answers"]);
  const json none = line_results(command + " --top 50 --unanswerable", "the dog?\n").at(0)["answers"];
  EXPECT_EQ(std::ranges::count_if(none, [](const json& one) { return one["text"] == ""; }), 1);
}

TEST_F(FamilyCommands, AnswerRefusesWhatItCannotRead) {
  const std::string command = "answer %bert_spans ";
  expect_refused(command, 2, {"either --question or --context"}, "a\n");
  expect_refused(command + "--question a --context @/none", 2, {"either --question or --context"}, "a\n");
  expect_refused(command + "--question ''", 2, {"--question: expected text, found none"}, "a\n");
  expect_refused(command + "--context @/none", 1, {"none"}, "a\n");
  scratch_.write("blank", " \n");
  expect_refused(command + "--context @/blank", 1, {"blank: expected text, found none"}, "a\n");
  scratch_.write("bytes", "a\xff");
  expect_refused(command + "--context @/bytes", 1, {"bytes: expected UTF-8"}, "a\n");
  expect_refused(command + "--question a --top 0", 2, {"--top: expected", "1 or more", "found 0"}, "a\n");
  expect_refused(command + "--question a --max-answer-tokens 1001", 2,
                 {"--max-answer-tokens: expected 1 to 1000, found 1001"}, "a\n");
  expect_refused(command + "--question a --window 21", 2,
                 {"window: expected at most 20 tokens (the model's limit), found 21"}, "a\n");
  const Outcome question = run(command + "--question 'a red dog' --window 6 a"),
                nothing = run(command + "--question a ''");
  EXPECT_EQ(std::pair(question.status, nothing.status), std::pair(1, 1));
  expect_parts(question.err, {"text 1: question: expected at most 5 tokens", "found 6"});
  expect_parts(nothing.err, {"text 1: expected text, found none"});
  expect_refused("answer %bert_tokens --question a", 1, {"a question answering head"}, "a\n");
  // A text of any length is read in windows.
  std::string text = "the man";
  for (int i = 0; i < 200; ++i) text += " dog";
  EXPECT_EQ(run(command + "--question a", {.input = text + "\n"}).status, 0);
}

TEST_F(FamilyCommands, ClassifyRefusesLabelsThatItCannotUse) {
  const std::string nli = "classify %hub/nli-deberta-v3-small ", input = "a red dog\n";
  expect_refused(nli + "--hypothesis 'a {}'", 2,
                 {"--hypothesis, --multi-label: expected --labels beside them"}, input);
  expect_refused(nli + "--labels 'red, blue' --pairs", 2, {"--pairs: not with --labels"}, input);
  expect_refused(nli + "--labels 'red,,blue'", 2, {"labels: expected texts, found an empty one"}, input);
  expect_refused(nli + "--labels red --hypothesis about", 2, {"hypothesis: expected a sentence with {}"},
                 input);
  expect_refused("classify %bert_texts --labels red", 1,
                 {"expected a model of natural language inference", "bad, so-so, good"}, input);
  expect_refused("classify %vit_images --labels red", 2, {"--labels: only for text models"}, input);
  EXPECT_EQ(output(nli + "--labels 'red, blue' --top 2", input),
            output(nli + "--labels red,blue --top 2", input));
}

// A word of several tokens has the label of the first, and all its characters.
TEST_F(FamilyCommands, TagLabelsWords) {
  const std::string input = "the man, a red-dog\tsmall  ";
  const json tokens = line_results("tag %bert_tokens", input + "\n").at(0)["tokens"],
             tagged = line_results("tag %bert_tokens --words", input + "\n").at(0)["words"];
  ASSERT_EQ(tagged.size(), 5u);
  EXPECT_GT(tokens.size(), tagged.size());
  const std::vector<std::string> expected{"the", "man,", "a", "red-dog", "small"};
  for (size_t i = 0; i < tagged.size(); ++i) {
    const json& word = tagged[i];
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

TEST_F(FamilyCommands, EmbedPoolsInEachWay) {
  for (const auto& [options, name] : {std::pair{"", "mean"},
                                      {" --pool cls", "cls"},
                                      {" --pool pooler", "pooler"},
                                      {" --normalize", "normalized"}})
    expect_recorded(concat("embed %bert_base", options), "bert_base", "vector", name);
}

// EmbeddingGemma's modules.
TEST_F(FamilyCommands, EmbedRunsDenseModulesThatQuantizeCopies) {
  expect_vectors("both_directions_and_dense", " --prompt-name query");
  output("quantize @/model --dtype bf16 --out @/kept");
  EXPECT_EQ(output("embed @/kept", "w5 w7\n"), output("embed @/model --dtype bf16", "w5 w7\n"));
  expect_refused("embed @/model --dimensions 9", 2, {"dimensions: expected 1 to 8", "found 9"}, "w5\n");
  expect_refused("generate @/model", 1, {"expected a language model"}, "w5\n");
}

// The folder's files set the defaults; the command line overrides them.
TEST_F(FamilyCommands, EmbedReadsTheSettingsOfASentenceTransformersFolder) {
  expect_vectors("prompted_to_the_positions");
  expect_recorded("embed @/model --pool cls --no-normalize --prompt ''", "bert_base", "vector", "cls");
  EXPECT_EQ(output("embed @/model --max-length 4 --prompt ''", "a red dog\n"),
            output("embed @/model --prompt ''", "a red\n"));
  // The modules' files are copied too.
  output("quantize @/model --dtype bf16 --out @/kept");
  EXPECT_EQ(output("embed @/kept", "a red dog\n"), output("embed @/model --dtype bf16", "a red dog\n"));
  scratch_.write("model/modules.json", R"([{"type": "x.Transformer", "path": "../elsewhere"}])");
  expect_refused("quantize @/model --dtype bf16 --out @/new", 1,
                 {"modules.json: [0].path: ", "../elsewhere"});
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "new"));
  expect_refused("embed %vit_base --prompt a", 2, {"--prompt", "only for text models"}, "x\n");
}

// A decoder's hidden states are pooled, too.
TEST_F(FamilyCommands, EmbedPoolsADecoder) {
  const std::string last = output("embed %llama --pool last", "a red dog\n");
  EXPECT_NE(last, output("embed %llama", "a red dog\n"));
  EXPECT_EQ(output("embed %llama --pool last", "the man\na red dog\n"),
            output("embed %llama --pool last", "the man\n") + last);
  EXPECT_EQ(output("embed %llama --pool last --dimensions 2", "a red dog\n"),
            last.substr(0, last.find(' ', last.find(' ') + 1)) + "\n");
  expect_refused("embed %llama --dimensions 9", 2, {"dimensions: expected 1 to 8", "found 9"}, "a\n");
  expect_refused("embed %llama --prompt-name query", 2, {"config_sentence_transformers.json"}, "a\n");
  expect_refused("embed %llama --prompt-name query --prompt a", 2, {"--prompt-name"}, "a\n");
}

// Without sentence-transformers' files nothing is cut unless asked for, and positions beyond the trained ones
// are refused; with them, texts are cut to the positions.
TEST_F(FamilyCommands, EmbedRefusesPositionsBeyondTheModelsUnlessTextsAreCut) {
  std::string text = "a";
  for (int i = 1; i < 30; ++i) text += " a";
  for (const std::string model : {"llama", "bert_base"}) {
    const Outcome outcome = run(concat("embed %", model), {.input = text + "\na\n"});
    EXPECT_EQ(outcome.status, 1);
    expect_parts(outcome.err, {"line 1: expected at most 20 tokens (the model's limit), found 3"});
    EXPECT_TRUE(outcome.out.ends_with("\n" + output(concat("embed %", model), "a\n"))) << outcome.out;
    expect_parts(run(concat("embed %", model, " --max-length 25"), {.input = text + "\n"}).err,
                 {"at most 20 tokens (the model's limit), found 25"});
    EXPECT_EQ(output(concat("embed %", model, " --max-length 20"), text + "\n"),
              output(concat("embed %", model, " --max-length 20"), text + " a\n"));
  }
}

TEST_F(FamilyCommands, RerankScoresLinesAndOrdersThem) {
  const json golden = json::parse(read_file(QKV_TEST_DATA "/pipelines/golden/rerankers.json"));
  const json& one = golden["cases"][0];
  std::filesystem::copy(recorded_model(one["model"]), scratch_ / "model");
  for (const auto& [name, content] : one["files"].items()) scratch_.write("model/" + name, content.dump());
  std::string input;
  for (const json& text : golden["texts"]) input += text.get<std::string>() + "\n";
  const std::string command = concat("rerank @/model --query '", golden["query"].get<std::string>(), "'");
  const std::vector<json> scores = line_results(command, input);
  ASSERT_EQ(scores.size(), 4u);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(scores[i]["score"].get<float>(), one["scores"][i].get<float>(), 5e-6);
  const std::vector<json> best = json_lines(output(command + " --top 2 --json", input));
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0]["line"], 2);
  EXPECT_EQ(best[0]["text"], golden["texts"][1]);
  EXPECT_EQ(best[0]["score"], scores[1]["score"]);
  EXPECT_EQ(best[1]["line"], 1);
  EXPECT_EQ(output(command + " --top 1", input).substr(0, 9),
            output(command, golden["texts"][1].get<std::string>() + "\n").substr(0, 8) + "\t");
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

TEST_F(FamilyCommands, OpenWeightsOfEachDtype) {
  for (const auto& [command, model, options] :
       {std::tuple{"generate", "llama", " --max-new-tokens 4"},
        {"score", "gpt2_untied_relu", ""},
        {"fill-mask", "bert_masked", ""},
        {"classify", "bert_texts", ""},
        {"tag", "bert_tokens", ""},
        {"answer", "bert_spans", " --question 'the dog sleeps?' --top 3"},
        {"embed", "bert_base", " --pool pooler"}}) {
    const json expected = recorded(model);
    const std::string original = concat(command, " %", model, options);
    const auto exact = results(original, expected);
    for (const std::string form : {"bf16", "int8"}) {
      const std::string rounded = concat(command, form);
      const Outcome quantized = run(concat("quantize %", model, " --dtype ", form, " --out @/", rounded));
      ASSERT_EQ(quantized.status, 0) << quantized.err;
      expect_parts(quantized.err, {form});
      const auto stored = results(concat(command, " @/", rounded, options), expected);
      EXPECT_EQ(stored, results(concat(original, " --dtype ", form), expected)) << rounded;
      EXPECT_NE(stored, exact) << rounded;
    }
  }
}

TEST_F(FamilyCommands, QuantizeReadsShards) {
  const Outcome outcome = run("quantize %llama_grouped+shards --dtype bf16 --out @/out");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  expect_parts(outcome.err, {"no qkv_proof.json: the folder has no tokenizer"});
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "out/qkv_proof.json"));
  EXPECT_EQ(result("inspect @/out")["weight_bytes"],
            result("inspect %llama_grouped+shards --dtype bf16")["weight_bytes"]);
}

// Layers without a window keep every position, the others what their window needs while chunks are read.
TEST_F(FamilyCommands, InspectShowsTheCacheThatWindowsLeave) {
  std::filesystem::copy(recorded_model("qwen2_windows"), scratch_ / "model");
  json config = json_file("model/config.json");
  config["max_position_embeddings"] = 65536;
  scratch_.write("model/config.json", config.dump());
  const auto bytes = [&] {
    const json cache = result("inspect @/model")["cache"];
    EXPECT_EQ(cache["positions"], 65536);
    return cache["bytes"].get<int64_t>();
  };
  const int64_t windowed = bytes();
  config["use_sliding_window"] = false;
  config.erase("layer_types");
  scratch_.write("model/config.json", config.dump());
  const int64_t whole = bytes(), layers = config["num_hidden_layers"];
  EXPECT_EQ(whole % (65536 * layers), 0);
  EXPECT_LT(windowed, whole);
  EXPECT_GE(windowed, whole / layers) << "one layer has no window";
}

TEST_F(FamilyCommands, InspectCountsBytesOfEachDtype) {
  const json f32 = result("inspect %vit_images --dtype f32"),
             int8 = result("inspect %vit_images --dtype int8");
  EXPECT_EQ(int8["dtype"], "int8");
  EXPECT_EQ(int8["parameters"], f32["parameters"]);
  EXPECT_EQ(f32["weight_bytes"], 4 * f32["parameters"].get<int64_t>());
  int64_t sum = 0;
  for (const json& part : int8["parts"]) sum += part["weight_bytes"].get<int64_t>();
  EXPECT_EQ(int8["weight_bytes"], sum);
  EXPECT_LT(sum, f32["weight_bytes"].get<int64_t>());
}

TEST_F(FamilyCommands, BadLinesDoNotAffectOthers) {
  std::string long_line = "the";
  for (int i = 0; i < 30; ++i) long_line += " dog";
  const std::string lines = "the man\n" + long_line + "\nbad \xff bytes\na red dog\n";
  for (const char* line : {"generate %gpt2_untied_relu --max-new-tokens 3", "score %gpt2_untied_relu",
                           "classify %bert_texts", "tag %bert_tokens", "embed %bert_base"}) {
    const Outcome outcome = run(line, {.input = lines});
    EXPECT_EQ(outcome.status, 1);
    expect_parts(outcome.err, {"line 2: ", "at most 20 tokens", "line 3: expected UTF-8", "2 of 4 lines"});
    const std::string good = output(line, "the man\na red dog\n");
    const size_t first = good.find('\n') + 1;
    EXPECT_TRUE(outcome.out.starts_with(good.substr(0, first) + "error: line 2: ")) << outcome.out;
    EXPECT_TRUE(outcome.out.ends_with(good.substr(first))) << outcome.out;
    expect_parts(outcome.out, {"\nerror: line 3: expected UTF-8"});
    EXPECT_EQ(count_lines_of(outcome.out), 4u);
  }
}

TEST_F(FamilyCommands, TakeTextsAsArguments) {
  for (const char* line : {"generate %gpt2_untied_relu --max-new-tokens 3", "score %gpt2_untied_relu",
                           "classify %bert_texts", "tag %bert_tokens", "embed %bert_base"}) {
    EXPECT_EQ(output(concat(line, " 'the man' 'a red dog'")), output(line, "the man\na red dog\n"));
    EXPECT_EQ(output(concat(line, " --json -- 'a red dog'")), output(concat(line, " --json"), "a red dog\n"));
  }
  EXPECT_EQ(output("fill-mask %bert_masked 'a red [MASK]'"),
            output("fill-mask %bert_masked", "a red [MASK]\n"));
  expect_refused("generate %gpt2_untied_relu 'a red' --prompt 'the man'", 2,
                 {"expected no --prompt beside it"});
}

TEST_F(FamilyCommands, RefuseModelsWithoutTheHead) {
  const std::string input = "the man\n";
  expect_refused("fill-mask %bert_texts", 1, {"masked-language head"}, input);
  expect_refused("classify %bert_masked", 1, {"a text classification head"}, input);
  expect_refused("tag %bert_texts", 1, {"a token classification head"}, input);
  expect_refused("embed %bert_masked --pool pooler", 2, {"a pooler"}, input);
  expect_refused("generate %bert_base a", 1,
                 {"model_type", "llama, mistral",
                  "a text encoder; open it with qkv fill-mask, classify, tag or embed\n"});
  expect_refused("fill-mask %gpt2_untied_relu", 1, {"masked-language head"}, input);
  expect_refused("rerank %bert_texts --query a", 1, {"a reranking (of one label) head"}, input);
  expect_refused("generate %nowhere --prompt a", 1, {"there is no such folder"});
}

TEST_F(FamilyCommands, NameTheOptionWhoseTextIsBad) {
  expect_refused("rerank %bert_texts --query b\xff", 2, {"--query: expected UTF-8"}, "a\na\n");
  expect_refused("embed %bert_base --prompt b\xff", 2, {"--prompt: expected UTF-8"}, "a\na\n");
}

class TextAttention : public CommandTest {
 protected:
  std::string draw(const std::string& options, const std::string& name) const {
    output(concat("attention ", options, " --out @/", name));
    return content(name);
  }
  json report_of(const std::string& options) const { return json::parse(draw(options, "report.json")); }

  const std::string pair_ = "%bert_texts --source 'a red dog' --pair 'one small house'";
};

TEST_F(TextAttention, ReportsAPair) {
  const json report = report_of(pair_);
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
  const json rounded = report_of(pair_ + " --dtype int8");
  EXPECT_EQ(rounded["source_tokens"], report["source_tokens"]);
  const json weights = report["layers"].flatten(), near = rounded["layers"].flatten();
  double largest = 0;
  for (const auto& [name, weight] : weights.items()) {
    if (name.find("/heads/") == std::string::npos) continue;
    largest = std::max(largest, std::abs(weight.get<double>() - near.at(name).get<double>()));
  }
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 0.05);
  expect_parts(draw(pair_, "pair.html"), {"\"second\":" + std::to_string(second)});
  // A panel's boundary: one line across, one down.
  const auto lines = [](const std::string& drawing) {
    size_t count = 0;
    for (size_t at = 0; (at = drawing.find("stroke-width=\"1\"", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(lines(draw(pair_, "pair.svg")),
            lines(draw("%bert_texts --source a", "one.svg")) +
                2 * report["layers"].size() * report["layers"][0]["heads"].size());

  // Tiles of three tokens; statistics are per token.
  const json tiles = report_of(pair_ + " --tile 3");
  EXPECT_EQ(tiles["tile"], 3);
  EXPECT_EQ(tiles["tokens"], tokens);
  EXPECT_EQ(tiles["source_tokens"].size(), (tokens + 2) / 3);
  for (size_t i = 0; i < report["layers"].size(); ++i)
    EXPECT_EQ(tiles["layers"][i]["statistics"], report["layers"][i]["statistics"]);
}

TEST_F(TextAttention, AlignsATranslation) {
  const json translation = report_of("%marian --source forty");
  ASSERT_EQ(translation["alignment"].size(), translation["target_tokens"].size());
  for (const json& source : translation["alignment"])
    EXPECT_LT(source.get<size_t>(), translation["source_tokens"].size());
}

TEST_F(TextAttention, RefusesOptionsOfOtherModels) {
  expect_refused("attention %marian --source a --tile 2 --out @/a.json", 2,
                 {"--tile: not for encoder-decoders"});
  expect_refused("attention %marian --source a --layer 1 --out @/a.json", 2, {"layer", ".svg", "a.json"});
  expect_refused("attention %marian --source a --part cross --layer 9 --out @/a.svg", 2,
                 {"part cross, layer 9"});
  expect_refused("attention %llama --source a --tile -2 --out @/a.json", 2, {"tile", "-2"});
  for (const char* other : {"%llama", "%marian"}) {
    expect_refused(concat("attention ", other, " --source a --pair b --out @/a.json"), 2,
                   {"--pair: only for text encoders"});
  }
}

}  // namespace
}  // namespace qkv::testing
