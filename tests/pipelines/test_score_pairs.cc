// Scores of given translations, compared with those of the search and of transformers.

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/score.h"
#include "qkv/pipelines/text_attention.h"
#include "qkv/search/score.h"
#include "tests/pipelines/translation_golden.h"
#include "tests/support/scratch.h"

namespace qkv::testing {
namespace {

using pipelines::PairScorer;
using pipelines::ScoredText;
using pipelines::TextPair;

class ScorePairs : public TranslationGolden {
 protected:
  ScorePairs() : TranslationGolden("marian"), scorer_(loaded_) {}

  const PairScorer scorer_;
};

// Log-probabilities of tokens equal those of the search, which does not score an end token that the limit
// forced.
TEST_F(ScorePairs, EqualTheScoresOfTheSearch) {
  using Rows = std::vector<std::vector<int32_t>>;
  const std::vector<std::string> texts = sources();
  const auto found = pipelines::Translator(loaded_)(texts, pipelines::default_options(model_));
  for (size_t i = 0; i < texts.size(); ++i) {
    const search::Hypothesis& hypothesis = found[i].hypotheses.at(0).hypothesis;
    pipelines::PairScoreRequest request = scorer_.prepare({.source = texts[i], .target = found[i].text});
    ASSERT_EQ(request.error, "");
    request.target = hypothesis.ids;  // its text may have other tokens
    const Rows source{request.source}, target{request.target};
    const auto scores = search::score(*model_.transformer, source, target);
    const ScoredText scored = scorer_.finish(request, scores.at(0));
    EXPECT_EQ(scored.tokens, found[i].hypotheses[0].tokens);
    ASSERT_EQ(scored.log_probabilities.size(), hypothesis.token_log_probabilities.size());
    const size_t chosen = scored.tokens.size() - (hypothesis.complete ? 0 : 1);
    ASSERT_GE(chosen, 3u);
    double sum = 0;
    for (size_t t = 0; t < scored.tokens.size(); ++t) {
      sum += double{scored.log_probabilities[t]};
      if (t >= chosen) continue;
      EXPECT_NEAR(scored.log_probabilities[t], hypothesis.token_log_probabilities[t], 2e-5) << i << ' ' << t;
    }
    EXPECT_NEAR(scored.log_probability, sum, 1e-4);
    EXPECT_NEAR(std::log(scored.perplexity), -sum / static_cast<double>(scored.tokens.size()), 1e-5);
  }
  // Together and alone, the bits are the same.
  std::vector<TextPair> pairs;
  for (const std::string& text : texts) pairs.push_back({.source = text, .target = "zwei " + text});
  const std::vector<ScoredText> together = scorer_(pairs);
  for (size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_EQ(scorer_(std::span(&pairs[i], 1)).at(0).log_probabilities, together[i].log_probabilities);
    EXPECT_LT(together[i].log_probability, 0);
  }
}

TEST_F(ScorePairs, EqualTheScoresOfTheAttentionReport) {
  const pipelines::TextCapture capture = pipelines::capture_text(model_, "twenty-one", "einundzwanzig");
  const std::vector<TextPair> pair{{.source = "twenty-one", .target = "einundzwanzig"}};
  const ScoredText scored = scorer_(pair).at(0);
  EXPECT_EQ(scored.tokens, capture.target_output_tokens);
  EXPECT_EQ(scored.log_probabilities, capture.capture.log_probabilities);
}

TEST_F(ScorePairs, AnErrorConcernsOnePair) {
  const std::string longer(400, 'x');
  const std::vector<TextPair> pairs{pipelines::pair_of_line("one\teins"),
                                    pipelines::pair_of_line("no tab"),
                                    {.source = "", .target = "eins"},
                                    {.source = "\xFF", .target = "eins"},
                                    {.source = "one", .target = "ein\xFFs"},
                                    {.source = longer + " " + longer, .target = "eins"},
                                    {.source = "one", .target = longer + " " + longer},
                                    {.source = "one", .target = ""},
                                    pipelines::pair_of_line("one\teins")};
  const std::vector<ScoredText> scores = scorer_(pairs);
  const std::vector<std::string> parts{"",
                                       "expected a source, a tab",
                                       "source: expected at least one token",
                                       "source: expected UTF-8",
                                       "target: expected UTF-8",
                                       "source tokens (the model's limit)",
                                       "target tokens (the model's limit)",
                                       "",
                                       ""};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) {
      EXPECT_EQ(scores[i].error, "") << i;
    } else {
      EXPECT_NE(scores[i].error.find(parts[i]), std::string::npos) << i << ": " << scores[i].error;
      EXPECT_TRUE(scores[i].log_probabilities.empty());
    }
  }
  EXPECT_EQ(scores[7].tokens, std::vector<std::string>{"</s>"});
  EXPECT_EQ(scores[0].log_probabilities, scores[8].log_probabilities);
  EXPECT_LT(scores[0].log_probability, 0);
}

// source_eos: sources are encoded as in training.
TEST_F(ScorePairs, SourcesEndAsInTraining) {
  const Scratch folder;
  models::TransformerConfig config = model_.config;
  config.source_eos = false;
  models::Transformer model(config);
  std::map<std::string, Tensor> values;
  model_.transformer->visit(
      [&](const std::string& name, const nn::Parameter& p) { values[name] = p.variable.value().clone(); });
  model.visit([&](const std::string& name, const nn::Parameter& p) { p.set_value({values.at(name), {}}); });
  model_.tokenizer->save(folder.path());
  models::save_transformer(folder.path(), model, model_.generation);
  const auto opened = pipelines::open_translation_model(folder.path());
  EXPECT_FALSE(opened->config.source_eos);
  EXPECT_EQ(pipelines::Translator(opened)
                .prepare({.text = "twenty-one"}, pipelines::default_options(*opened))
                .decode.source,
            model_.tokenizer->encode_source("twenty-one"));
  const pipelines::TextCapture capture = pipelines::capture_text(*opened, "twenty-one", "zwei");
  EXPECT_EQ(capture.capture.source, model_.tokenizer->encode_source("twenty-one"));
  const std::vector<TextPair> pair{{.source = "twenty-one", .target = "zwei"}};
  EXPECT_EQ(PairScorer(opened)(pair).at(0).log_probabilities, capture.capture.log_probabilities);
  EXPECT_NE(scorer_(pair).at(0).log_probabilities, capture.capture.log_probabilities);
  EXPECT_THROW(pipelines::Translator({loaded_, opened}).make_engine(), UsageError)
      << "an ensemble of both has no common source";
}

}  // namespace
}  // namespace qkv::testing
