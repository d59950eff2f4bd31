#include "qkv/pipelines/translate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"
#include "qkv/pipelines/lines.h"
#include "qkv/pipelines/text_attention.h"
#include "qkv/text/train_sentencepiece.h"
#include "tests/search/random_transformer.h"

namespace qkv::pipelines {
namespace {

const char* const kWords[] = {"red",  "green", "house", "tree", "small",
                              "bird", "the",   "under", "sees", "dog"};

std::string sentence(RandomStream& random) {
  std::string text;
  for (uint64_t i = 0, words = 1 + random.below(9); i < words; ++i) {
    text += std::string(i ? " " : "") + kWords[random.below(10)];
  }
  return text;
}

std::vector<std::string> sentences(size_t count, uint64_t seed) {
  RandomStream random(seed);
  std::vector<std::string> result(count);
  for (std::string& text : result) text = sentence(random);
  return result;
}

// A tokenizer for the words, and an untrained Transformer.
class TranslateTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::filesystem::path corpus =
        std::filesystem::temp_directory_path() / ("qkv-translate-" + std::to_string(::getpid()) + ".txt");
    {
      std::ofstream out(corpus);
      for (const std::string& text : sentences(300, 1)) out << text << ".\n";
    }
    const std::string spm =
        text::train_sentencepiece({.inputs = {corpus}, .vocab_size = 30, .character_coverage = 1});
    std::filesystem::remove(corpus);
    const auto model = std::make_shared<models::TranslationModel>();
    const auto tokenizer = text::TranslationTokenizer::from_models(
        {.source = spm, .target = {}, .source_lang = {}, .target_lang = {}});
    model->tokenizer = std::make_unique<const text::TranslationTokenizer>(tokenizer);
    models::TransformerConfig config = search::testing::small_config();
    config.source_vocabulary = config.target_vocabulary = tokenizer.size();
    config.eos_id = tokenizer.eos_id();
    config.pad_id = config.decoder_start_id = tokenizer.pad_id();
    model->config = config;
    model->transformer = search::testing::random_transformer(config, 13);
    model->generation = {.beam = 3, .length_penalty = 1.5f, .max_new_tokens = 19};
    model_ = model;
  }
  static void TearDownTestSuite() { model_.reset(); }

  static TranslateOptions options() { return default_options(*model_); }
  static std::vector<Translation> translate(const std::vector<std::string>& sources,
                                            const TranslateOptions& how,
                                            const search::EngineOptions& engine = {}) {
    return Translator(model_)(sources, how, engine);
  }

  static std::vector<Translation> translate_stream(const std::string& input, const LineOptions& stream,
                                                   LineCounts& counts) {
    std::istringstream in(input);
    std::vector<Translation> found;
    const Translator translator(model_);
    counts = for_each_line(
        LineReader(in, stream),
        [&](std::span<const std::string> texts, std::span<const int64_t> /*lines*/) {
          return translator(texts, options());
        },
        [&](const Line& line, const Translation& one) {
          found.push_back(one);
          EXPECT_EQ(line.number, std::ssize(found));
        },
        [] {});
    return found;
  }

  static std::shared_ptr<const models::TranslationModel> model_;
};

std::shared_ptr<const models::TranslationModel> TranslateTest::model_;

TEST_F(TranslateTest, DefaultsComeFromTheFolder) {
  EXPECT_EQ(options().search.beam, 3);
  EXPECT_EQ(options().search.length_penalty, 1.5);
  EXPECT_EQ(options().search.max_new_tokens, 19);
}

TEST_F(TranslateTest, TranslationsKeepTheOrderOfSources) {
  const std::vector<std::string> sources = sentences(40, 2);
  TranslateOptions how = options();
  how.search.nbest = 3;
  const auto together = translate(sources, how, {.batch_tokens = 50});
  ASSERT_EQ(together.size(), sources.size());
  std::set<std::string> texts;
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto alone = translate({sources[i]}, how);
    EXPECT_EQ(together[i].text, alone[0].text);
    EXPECT_EQ(together[i].error, "");
    ASSERT_EQ(together[i].hypotheses.size(), 3u);
    for (size_t k = 0; k < 3; ++k) {
      const TranslatedHypothesis& one = together[i].hypotheses[k];
      EXPECT_EQ(one.hypothesis.score, alone[0].hypotheses[k].hypothesis.score);
      EXPECT_EQ(one.text, model_->tokenizer->decode(one.hypothesis.ids));
      EXPECT_EQ(one.tokens.size(), one.hypothesis.ids.size());
      EXPECT_EQ(one.tokens.back(), "</s>");
      if (k > 0) {
        EXPECT_LE(one.hypothesis.score, together[i].hypotheses[k - 1].hypothesis.score);
      }
    }
    texts.insert(together[i].text);
  }
  EXPECT_GT(texts.size(), 5u);
}

TEST_F(TranslateTest, BadLinesDoNotAffectOthers) {
  std::string endless;
  for (int i = 0; i < 500; ++i) endless += "house ";
  const std::vector<std::string> sources = {"the red dog", "",      "bad \xff byte",
                                            "  \t ",       endless, "green tree"};
  const auto found = translate(sources, options());
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(found[0].text, translate({"the red dog"}, options())[0].text);
  EXPECT_EQ(found[5].text, translate({"green tree"}, options())[0].text);
  for (const size_t i : {1u, 3u}) {
    EXPECT_EQ(found[i].text, "");
    EXPECT_EQ(found[i].error, "");
    EXPECT_TRUE(found[i].hypotheses.empty());
  }
  EXPECT_NE(found[2].error.find("UTF-8"), std::string::npos);
  EXPECT_NE(found[2].error.find("byte 4"), std::string::npos);
  EXPECT_NE(found[4].error.find("at most 64 source tokens"), std::string::npos);
  EXPECT_GT(found[4].source_tokens, 500);

  TranslateOptions cut = options();
  cut.truncate = true;
  const auto shortened = translate({endless, "the red dog"}, cut);
  EXPECT_TRUE(shortened[0].truncated);
  EXPECT_EQ(shortened[0].error, "");
  EXPECT_FALSE(shortened[0].hypotheses.empty());
  EXPECT_FALSE(shortened[1].truncated);
  cut.max_source_tokens = 4;
  const auto first = translate({"the red dog under the house"}, cut);
  EXPECT_TRUE(first[0].truncated);
  EXPECT_EQ(first[0].text, translate({"the red dog"}, options())[0].text);  // three pieces and </s>
}

TEST_F(TranslateTest, RejectsAnEndlessLineAndContinues) {
  const std::string endless(100000, 'a');
  LineCounts counts;
  const auto found =
      translate_stream("the red dog\n" + endless + "\n" + std::string(18, 'a') + "\r\ngreen tree\n",
                       {.max_line_bytes = 18}, counts);
  ASSERT_EQ(counts.lines, 4);
  EXPECT_EQ(counts.errors, 1);
  EXPECT_EQ(found[1].error, "expected at most 18 bytes, found 100000");
  EXPECT_EQ(found[1].text, "");
  EXPECT_EQ(found[2].error, "");
  EXPECT_EQ(found[0].text, translate({"the red dog"}, options())[0].text);
  EXPECT_EQ(found[3].text, translate({"green tree"}, options())[0].text);
}

TEST_F(TranslateTest, InvalidPrefixDoesNotAffectOthers) {
  TranslateOptions how = options();
  how.search.max_new_tokens = 5;
  const std::vector<Source> sources = {{.text = "the red dog", .prefix = "green"},
                                       {.text = "the red dog", .prefix = "green \x80"},
                                       {.text = "green tree"}};
  const auto found = Translator(model_)(sources, how);
  EXPECT_EQ(found[0].text.substr(0, 5), "green");
  EXPECT_EQ(found[1].error, "prefix: expected UTF-8, found a malformed character at byte 6");
  EXPECT_TRUE(found[1].hypotheses.empty());
  EXPECT_EQ(found[2].text, translate({"green tree"}, how)[0].text);
}

TEST_F(TranslateTest, BadOptionsAreErrors) {
  TranslateOptions how = options();
  how.search.nbest = 9;
  EXPECT_THROW(translate({"a"}, how), UsageError);
  how = options();
  how.max_source_tokens = 1;
  EXPECT_THROW(translate({"a"}, how), UsageError);
  EXPECT_THROW(translate({"the"}, options(), {.batch_tokens = -1}), UsageError);
  how = options();
  how.trace = how.search.alternatives = true;
  EXPECT_THROW(translate({"the"}, how), UsageError);
}

TEST_F(TranslateTest, SameResultsForAnyChunksOfAStream) {
  const std::vector<std::string> sources = {"the dog", "",      "red bird sees the tree",
                                            "\x80",    "small", "house"};
  const std::vector<Translation> expected = translate(sources, options());
  for (const LineOptions& stream : {LineOptions{}, LineOptions{.chunk_lines = 1},
                                    LineOptions{.chunk_lines = 4}, LineOptions{.chunk_bytes = 9}}) {
    LineCounts counts;
    const auto found =
        translate_stream("the dog\r\n\nred bird sees the tree\n\x80\nsmall\nhouse", stream, counts);
    ASSERT_EQ(found.size(), 6u);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].text, expected[i].text);
      EXPECT_EQ(found[i].error, expected[i].error);
    }
    EXPECT_EQ(counts.lines, 6);
    EXPECT_EQ(counts.errors, 1);
  }
}

TEST_F(TranslateTest, LineMayGiveAPrefixAfterATab) {
  EXPECT_EQ(source_of_line("the dog\tgreen house", 3).text, "the dog\tgreen house");
  const Source source = source_of_line("the dog\tgreen house", 3, true);
  EXPECT_EQ(source.text, "the dog");
  EXPECT_EQ(source.prefix, "green house");
  EXPECT_EQ(source.key, 3u);
}

TEST_F(TranslateTest, CaptureTakesAGivenTargetOrTranslates) {
  const search::SearchOptions how = options().search;
  const TextCapture own = capture_text(*model_, "the red dog", "", how);
  EXPECT_EQ(own.target, translate({"the red dog"}, options())[0].text);
  EXPECT_EQ(own.source_tokens.size(), 4u);
  EXPECT_EQ(own.source_tokens.back(), "</s>");
  EXPECT_EQ(own.target_input_tokens.size(), own.target_output_tokens.size());
  EXPECT_EQ(own.capture.attentions.size(), 6u);
  const TextCapture given = capture_text(*model_, "the red dog", "green house", how);
  EXPECT_EQ(given.target, "green house");
  EXPECT_EQ(given.target_output_tokens, (std::vector<std::string>{"▁green", "▁house", "</s>"}));
  EXPECT_EQ(given.target_input_tokens.front(), "<pad>");
  EXPECT_THROW(capture_text(*model_, " ", "", how), UsageError);
  EXPECT_THROW(capture_text(*model_, "the", "\xc3", how), DataError);
}

}  // namespace
}  // namespace qkv::pipelines
