// Masks, labels, tags, answers, vectors and relevance of texts.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/apps/family_commands.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class EncoderCommands : public FamilyCommands {
 protected:
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

TEST_F(EncoderCommands, FillMaskPredictsLikeTransformers) {
  expect_recorded("fill-mask %bert_masked --top 3", "bert_masked", "masks");
  const std::string text = output("fill-mask %bert_masked --top 1", "a red [MASK]\n");
  const json best = recorded("bert_masked")[1]["masks"][0][0];
  EXPECT_EQ(text.substr(0, 4), "1\t1\t");
  expect_parts(text,
               {concat("\t", best["token"].get<std::string>(), "\t", best["text"].get<std::string>(), "\n")});
}

TEST_F(EncoderCommands, ClassifyLabelsTextsAndPairs) {
  expect_recorded("classify %bert_texts --pairs", "bert_texts", "labels");
  const std::string text = output("classify %bert_texts", "a red dog\n");
  const std::string label = recorded("bert_texts")[1]["labels"][0]["label"];
  EXPECT_TRUE(text.starts_with(label + "\t")) << text;
}

// An encoder-decoder scores pairs; an error concerns its line.
TEST_F(EncoderCommands, TagLabelsTokens) {
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

TEST_F(EncoderCommands, AnswerPrintsSpansOfTexts) {
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
TEST_F(EncoderCommands, AnswerQuestionsAboutAFile) {
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

TEST_F(EncoderCommands, AnswerRefusesWhatItCannotRead) {
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

// Texts in one window and in several, in any chunks and with any number of threads.
TEST_F(EncoderCommands, AnswersAndLabelsHaveTheSameBits) {
  std::string lines;
  for (int i = 0; i < 9; ++i) {
    lines += i % 2 == 0 ? "the man" : "a red dog";
    for (int k = 0; k < 5 * i; ++k) lines += k % 3 == 0 ? " sleeps" : " and the dog";
    lines += "\n";
  }
  for (const std::string line :
       {"answer %bert_spans --question 'the dog?' --top 3 --window 14 --shared 3 --json",
        "classify %hub/nli-deberta-v3-small --labels 'red, a man' --json"}) {
    const std::string once = output(line, lines);
    EXPECT_EQ(count_lines_of(once), 9u);
    for (const char* how : {" --chunk-lines 1", " --chunk-lines 4 --threads 2", " --threads 1"})
      EXPECT_EQ(output(line + how, lines), once) << line << how;
  }
}

TEST_F(EncoderCommands, ClassifyRefusesLabelsThatItCannotUse) {
  const std::string nli = "classify %hub/nli-deberta-v3-small ", input = "a red dog\n";
  expect_refused(nli + "--hypothesis 'a {}'", 2,
                 {"--hypothesis, --multi-label: expected --labels beside them"}, input);
  expect_refused(nli + "--labels 'red, blue' --pairs", 2, {"--pairs: not with --labels"}, input);
  expect_refused(nli + "--labels 'red,,blue'", 2, {"labels: expected texts, found an empty one"}, input);
  expect_refused(nli + "--labels red --hypothesis about", 2, {"hypothesis: expected a sentence with {}"},
                 input);
  expect_refused("classify %bert_texts --labels red", 1,
                 {"expected a model of natural language inference", "bad, so-so, good"}, input);
  expect_refused("classify %vit_images --labels red", 2, {"--labels: only for models of texts"}, input);
  EXPECT_EQ(output(nli + "--labels 'red, blue' --top 2", input),
            output(nli + "--labels red,blue --top 2", input));
}

// A word of several tokens has the label of the first, and all its characters.
TEST_F(EncoderCommands, TagLabelsWords) {
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

TEST_F(EncoderCommands, EmbedPoolsInEachWay) {
  for (const auto& [options, name] : {std::pair{"", "mean"},
                                      {" --pool cls", "cls"},
                                      {" --pool pooler", "pooler"},
                                      {" --normalize", "normalized"}})
    expect_recorded(concat("embed %bert_base", options), "bert_base", "vector", name);
}

// EmbeddingGemma's modules.
TEST_F(EncoderCommands, EmbedRunsDenseModulesThatQuantizeCopies) {
  expect_vectors("both_directions_and_dense", " --prompt-name query");
  output("quantize @/model --dtype bf16 --out @/kept");
  EXPECT_EQ(output("embed @/kept", "w5 w7\n"), output("embed @/model --dtype bf16", "w5 w7\n"));
  expect_refused("embed @/model --dimensions 9", 2, {"dimensions: expected 1 to 8", "found 9"}, "w5\n");
  expect_refused("generate @/model", 1, {"expected a language model"}, "w5\n");
}

// Weights are those of sentence-transformers (tests/golden/sparse_vectors.py).
TEST_F(EncoderCommands, EmbedWeighsTokensOfTheVocabulary) {
  const json golden = json::parse(read_file(QKV_TEST_DATA "/pipelines/golden/sparse_vectors.json"));
  const json& one = golden["cases"][1];
  std::filesystem::copy(recorded_model(one["model"]), scratch_ / "model");
  for (const auto& [file, content] : one["files"].items()) scratch_.write("model/" + file, content.dump());
  const std::string text = golden["texts"][1].get<std::string>() + "\n";
  const json weights = line_results("embed @/model --sparse", text).at(0)["weights"];
  ASSERT_GT(weights.size(), 2u);
  for (const json& weight : weights)
    expect_same(weight["weight"], one["vectors"][1][weight["id"].get<size_t>()], weight["token"]);
  const auto shown = [](const json& weight) {
    std::ostringstream written;
    written << std::setprecision(9) << weight["token"].get<std::string>() << ':'
            << weight["weight"].get<float>();
    return written.str();
  };
  EXPECT_EQ(output("embed @/model --sparse --top 2", text),
            concat(shown(weights[0]), " ", shown(weights[1]), "\n"));
  EXPECT_EQ(output("embed %bert_masked --sparse --prompt 'A RED '", "dog\n"),
            output("embed %bert_masked --sparse --max-length 5", "A RED dog a a\n"));
  expect_refused("embed @/model", 2, {"expected --sparse"}, text);
  expect_refused("embed @/model --sparse --pool cls", 2, {"--pool", "not with --sparse"}, text);
  expect_refused("embed @/model --top 3", 2, {"--top", "--sparse"}, text);
  expect_refused("embed %bert_texts --sparse", 1,
                 {"config.json: expected a model with a masked-language head"}, text);
  expect_refused("embed %llama --sparse", 1, {"masked-language head"}, text);
  expect_refused("embed %vit_base --sparse", 2, {"--sparse", "only for text models"}, "x\n");
}

// The folder's files set the defaults; the command line overrides them.
TEST_F(EncoderCommands, EmbedReadsTheSettingsOfASentenceTransformersFolder) {
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
TEST_F(EncoderCommands, EmbedPoolsADecoder) {
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
TEST_F(EncoderCommands, EmbedRefusesPositionsBeyondTheModelsUnlessTextsAreCut) {
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

TEST_F(EncoderCommands, RerankScoresLinesAndOrdersThem) {
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

}  // namespace
}  // namespace qkv::testing
