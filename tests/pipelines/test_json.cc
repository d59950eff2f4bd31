// Results as JSON, byte by byte, because scripts read these keys.

#include "qkv/pipelines/json.h"

#include <gtest/gtest.h>

#include "qkv/base/json.h"
#include "tests/pipelines/translation_golden.h"

namespace qkv::pipelines {
namespace {

Translation example() {
  Translation translation;
  translation.text = "zwei Häuser";
  translation.source_pieces = {"▁two", "</s>"};
  translation.hypotheses.push_back({.text = "zwei Häuser",
                                    .hypothesis = {.ids = {7, 0},
                                                   .score = -0.5,
                                                   .log_probability = -0.75,
                                                   .token_log_probabilities = {-0.25f, -0.5f},
                                                   .complete = true},
                                    .tokens = {"▁zwei", "</s>"},
                                    .alignment = {0, 1}});
  return translation;
}

TEST(Json, OfATranslation) {
  EXPECT_EQ(to_json(example()),
            R"({"translation":"zwei Häuser","hypotheses":[{"text":"zwei Häuser","score":-0.5}]})");
  EXPECT_EQ(to_json(example(), {.scores = true}),
            R"({"translation":"zwei Häuser","hypotheses":[{"text":"zwei Häuser","score":-0.5,)"
            R"("tokens":["▁zwei","</s>"],"log_probability":-0.75,"complete":true,)"
            R"("token_log_probabilities":[-0.25,-0.5]}]})");
  Translation cut = example();
  cut.truncated = true;
  EXPECT_EQ(
      to_json(cut, {.alignment = true}),
      R"({"translation":"zwei Häuser","truncated":true,"source_tokens":["▁two","</s>"],)"
      R"("hypotheses":[{"text":"zwei Häuser","score":-0.5,"tokens":["▁zwei","</s>"],"alignment":[0,1]}]})");
  EXPECT_EQ(to_json(Translation()), R"({"translation":"","hypotheses":[]})");
}

TEST(Json, OfAnErrorIsTheErrorAlone) {
  Translation failed = example();
  failed.error = "expected UTF-8, found \"\xff\"";
  EXPECT_EQ(to_json(failed), "{\"error\":\"expected UTF-8, found \\\"\uFFFD\\\"\"}");
  EXPECT_EQ(to_json(Classified{.labels = {{"LABEL_0", 0.5f}}, .error = "too long"}),
            R"({"error":"too long"})");
  EXPECT_EQ(to_json(Embedded{.values = {1}, .error = "no image"}), R"({"error":"no image"})");
  EXPECT_EQ(with_line(12, to_json(Embedded{.values = {}, .error = "no image"})),
            R"({"line":12,"error":"no image"})");
}

TEST(Json, OfScores) {
  const metrics::BleuResult bleu{.score = 42.5,
                                 .precisions = {75, 50, 25, 12.5},
                                 .brevity_penalty = 0.75,
                                 .hypothesis_length = 7,
                                 .reference_length = 9,
                                 .counts = {},
                                 .totals = {},
                                 .references = 2};
  const std::string signature = metrics::signature(bleu, {.lowercase = true});
  EXPECT_EQ(to_json(bleu, {.lowercase = true}),
            concat(R"({"score":42.5,"signature":")", signature,
                   R"(","precisions":[75.0,50.0,25.0,12.5],"brevity_penalty":0.75,)"
                   R"("hypothesis_length":7,"reference_length":9})"));
  const metrics::ChrfResult chrf{.score = 61.25, .references = 1};
  EXPECT_EQ(to_json(chrf, {}),
            concat(R"({"score":61.25,"signature":")", metrics::signature(chrf, {}), R"("})"));
}

TEST(Json, OfTokens) {
  const auto tokenizer = text::Tokenizer::load(QKV_TEST_DATA "/text/golden/word_level.json");
  const std::string word(tokenizer.token(5).value());
  const text::Encoding encoding{.ids = {5, 0},
                                .offsets = {{.begin = 0, .end = 3}, {.begin = 3, .end = 9}},
                                .type_ids = {0, 1},
                                .special_mask = {0, 0},
                                .text_index = {0, 1},
                                .word_index = {0, 0}};
  EXPECT_EQ(to_json(encoding, tokenizer),
            concat(R"({"ids":[5,0],"tokens":[)", quoted_json(word),
                   R"(,"<unk>"],"offsets":[[0,3],[3,9]],"type_ids":[0,1],"special_mask":[0,0],)"
                   R"("text_index":[0,1],"word_index":[0,0]})"));
}

TEST(Json, OfASearchTrace) {
  const auto model = open_translation_model(QKV_TEST_DATA "/pipelines/golden/t5");
  using search::TraceEntry;
  const search::SearchTrace trace{
      .steps = {{{.row = 0,
                  .id = 14,
                  .log_probability = -0.5f,
                  .total = -0.5f,
                  .penalty = 1,
                  .coverage = 0,
                  .score = -0.5,
                  .fate = TraceEntry::Fate::kept},
                 {.row = 0, .id = 8, .log_probability = -2, .total = -2, .score = -2}},
                {{.row = 0,
                  .id = 1,
                  .log_probability = -0.25f,
                  .total = -0.75f,
                  .penalty = 2,
                  .coverage = -0.125,
                  .score = -0.5,
                  .fate = TraceEntry::Fate::finished}}}};
  const std::string first(model->tokenizer->piece(14)), second(model->tokenizer->piece(8));
  ASSERT_NE(first, "");
  ASSERT_NE(first, second);
  EXPECT_EQ(
      to_json(trace, *model->tokenizer),
      R"({"steps":[[{"hypothesis":[],"token":")" + first +
          R"(","log_probability":-0.5,"total":-0.5,"penalty":1.0,"coverage":0.0,"score":-0.5,"fate":"kept"},)" +
          R"({"hypothesis":[],"token":")" + second +
          R"(","log_probability":-2.0,"total":-2.0,"penalty":1.0,"coverage":0.0,"score":-2.0,"fate":"pruned"}],)" +
          R"([{"hypothesis":[")" + first +
          R"("],"token":"</s>","log_probability":-0.25,"total":-0.75,"penalty":2.0,"coverage":-0.125,)" +
          R"("score":-0.5,"fate":"finished"}]]})");
}

TEST(Json, OfACompletion) {
  Generated generated;
  generated.prompt_tokens = 3;
  generated.completions.push_back({.text = " time\n",
                                   .hypothesis = {.ids = {11, 12},
                                                  .score = -1,
                                                  .log_probability = -1.5,
                                                  .token_log_probabilities = {-1, -0.5f},
                                                  .complete = false}});
  EXPECT_EQ(
      to_json(generated),
      R"({"prompt_tokens":3,"texts":[{"text":" time\n","complete":false,"log_probability":-1.5,"ids":[11,12],)"
      R"("token_log_probabilities":[-1.0,-0.5]}]})");
}

TEST(Json, OfAScoredText) {
  EXPECT_EQ(
      to_json(ScoredText{.tokens = {"a", "Ġb"},
                         .log_probabilities = {-0.5f, -1},
                         .log_probability = -1.5,
                         .perplexity = 2.25,
                         .error = {}}),
      R"({"log_probability":-1.5,"perplexity":2.25,"tokens":["a","Ġb"],"token_log_probabilities":[-0.5,-1.0]})");
  EXPECT_EQ(to_json(ScoredText()),
            R"({"log_probability":0.0,"perplexity":null,"tokens":[],"token_log_probabilities":[]})");
}

TEST(Json, OfEncoderResults) {
  const Classified classified{.labels = {{"good", 0.75f}, {"bad", 0.25f}}, .error = {}};
  EXPECT_EQ(to_json(classified),
            R"({"labels":[{"label":"good","probability":0.75},{"label":"bad","probability":0.25}]})");
  EXPECT_EQ(to_json(classified, 1), R"({"labels":[{"label":"good","probability":0.75}]})");
  EXPECT_EQ(to_json(TaggedText{.tokens = {{.begin = 2, .end = 5, .text = "red", .label = {"B-X", 0.5f}}},
                               .error = {}}),
            R"({"tokens":[{"text":"red","begin":2,"end":5,"label":"B-X","probability":0.5}]})");
  EXPECT_EQ(to_json(TaggedText{.tokens = {{.begin = 2, .end = 5, .text = "red", .label = {"B-X", 0.5f}}},
                               .words = true,
                               .error = {}}),
            R"({"words":[{"text":"red","begin":2,"end":5,"label":"B-X","probability":0.5}]})");
  EXPECT_EQ(
      to_json(FilledText{.masks = {{{.id = 4, .token = "dog", .probability = 0.5f, .text = "a dog"}}, {}},
                         .error = {}}),
      R"({"masks":[[{"token":"dog","id":4,"probability":0.5,"text":"a dog"}],[]]})");
  EXPECT_EQ(to_json(Embedded{.values = {0.5f, -2, 0.1f}, .error = {}}),
            R"({"vector":[0.5,-2.0,0.10000000149011612]})");
}

}  // namespace
}  // namespace qkv::pipelines
