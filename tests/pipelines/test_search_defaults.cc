#include "qkv/pipelines/search_defaults.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/translate.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using qkv::testing::message_of;

const std::filesystem::path kData = QKV_TEST_DATA;

TEST(SearchDefaults, SamplingFollowsTheFolder) {
  const search::Sampling sampling =
      sampling_defaults({.temperature = 0.75, .top_k = 7, .top_p = 0.875, .min_p = 0.25});
  EXPECT_EQ(sampling.temperature, 0.75);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.top_p, 0.875);
  EXPECT_EQ(sampling.min_p, 0.25);
}

TEST(SearchDefaults, TranslationsOmitBadWords) {
  const Translator translator(kData / "pipelines/golden/marian");
  const std::vector<std::string> sources{"twenty-one", "seven"};
  TranslateOptions options = translator.default_options();
  const auto free = translator(sources, options);
  const std::string word = free[0].text.substr(0, free[0].text.find(' '));
  ASSERT_NE(word, "");
  const std::vector<std::string> words{word};
  options.search.bad_words = bad_words(*translator.model().tokenizer, words);
  ASSERT_EQ(options.search.bad_words.size(), 1u);
  EXPECT_EQ(options.search.bad_words[0], translator.model().tokenizer->encode_target(word));
  const auto found = translator(sources, options);
  EXPECT_NE(found[0].text, free[0].text);
  const std::vector<int32_t>& ids = found[0].hypotheses.at(0).hypothesis.ids;
  EXPECT_TRUE(std::ranges::search(ids, options.search.bad_words[0]).empty());
  const std::vector<std::string> nothing{""};
  EXPECT_NE(
      message_of<UsageError>([&] { bad_words(*translator.model().tokenizer, nothing); }).find("bad_words"),
      std::string::npos);
}

TEST(SearchDefaults, CompletionsOmitBadWords) {
  const TextGenerator generator(kData / "models/golden/gpt2_untied_relu");
  GenerateOptions options = generator.default_options();
  options.search.max_new_tokens = 8;
  const Prompt prompt{.text = "the man"};
  const auto ids_of = [&] {
    return generator(std::span(&prompt, 1), options).front().completions.at(0).hypothesis.ids;
  };
  const std::vector<int32_t> free = ids_of();
  const std::vector<std::string> words{generator.model().tokenizer.decode(std::span(free).first(1))};
  options.search.bad_words = bad_words(generator.model().tokenizer, words);
  ASSERT_FALSE(options.search.bad_words.empty());
  const std::vector<int32_t> found = ids_of();
  EXPECT_NE(found, free);
  for (const std::vector<int32_t>& bad : options.search.bad_words)
    EXPECT_TRUE(std::ranges::search(found, bad).empty());
}

}  // namespace
}  // namespace qkv::pipelines
