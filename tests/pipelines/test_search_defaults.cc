#include "qkv/pipelines/search_defaults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/translate.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using nlohmann::json;
using qkv::testing::message_of;
using qkv::testing::Scratch;

const std::filesystem::path kData = QKV_TEST_DATA;

TEST(SearchDefaults, SamplingFollowsTheFolder) {
  const search::Sampling sampling =
      sampling_defaults({.sampling = {.temperature = 0.75, .top_k = 7, .top_p = 0.875, .min_p = 0.25}});
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

// A copy of a golden folder with these fields as its generation_config.json.
class WithFields {
 public:
  WithFields(const std::filesystem::path& folder, const json& fields) {
    for (const auto& file : std::filesystem::directory_iterator(folder))
      std::filesystem::create_symlink(file, scratch_.path() / file.path().filename());
    std::filesystem::remove(scratch_ / "generation_config.json");
    scratch_.write("generation_config.json", fields.dump());
  }
  const std::filesystem::path& path() const { return scratch_.path(); }

 private:
  Scratch scratch_;
};

// Without an end token that only marks the limit.
std::vector<int32_t> chosen(search::Hypothesis hypothesis, bool forced_eos) {
  if (!hypothesis.complete && !forced_eos) hypothesis.ids.pop_back();
  return hypothesis.ids;
}

TEST(SearchDefaults, FieldsOfGenerationConfigDoWhatTransformersDo) {
  const json golden = json::parse(read_file(kData / "pipelines/golden/generation_rules.json"));
  ASSERT_EQ(golden.size(), 2u);
  for (const json& model : golden) {
    const auto texts = model["texts"].get<std::vector<std::string>>();
    for (const json& one : model["cases"]) {
      const WithFields folder(kData / model["folder"], one["fields"]);
      std::vector<std::vector<int32_t>> ids;
      if (&model == &golden[0]) {
        const TextGenerator generator(folder.path());
        std::vector<Prompt> prompts;
        for (const std::string& text : texts) prompts.push_back({.text = text});
        for (const Generated& found : generator(prompts, generator.default_options()))
          ids.push_back(found.completions.at(0).hypothesis.ids);
      } else {
        const Translator translator(folder.path());
        const TranslateOptions options = translator.default_options();
        for (const Translation& found : translator(texts, options))
          ids.push_back(chosen(found.hypotheses.at(0).hypothesis, options.search.forced_eos));
      }
      EXPECT_EQ(ids, one["ids"].get<std::vector<std::vector<int32_t>>>()) << one["fields"];
    }
  }
}

TEST(SearchDefaults, UnsupportedFieldsAreRefusedByNameUnlessNeutral) {
  const std::filesystem::path gpt2 = kData / "models/golden/gpt2_untied_relu";
  const auto options_of = [&](const json& fields) {
    const WithFields folder(gpt2, fields);
    const TextGenerator generator(folder.path());
    generator.default_options();
    sampling_defaults(generator.model().generation);
  };
  const json unsupported{{"guidance_scale", 1.5}, {"num_beam_groups", 2},     {"penalty_alpha", 0.6},
                         {"dola_layers", "low"},  {"stop_strings", {"\n"}},   {"constraints", {1}},
                         {"typical_p", 0.9},      {"epsilon_cutoff", 0.25},   {"force_words_ids", {{4}}},
                         {"max_time", 2.5},       {"num_return_sequences", 3}};
  for (const auto& [key, value] : unsupported.items()) {
    const std::string message = message_of<DataError>([&] { options_of({{key, value}}); });
    testing::expect_parts(message, {"generation_config.json: " + key, value.dump()});
  }
  for (const char* key : {"eos_token_id", "forced_eos_token_id"}) {
    const WithFields folder(kData / "pipelines/golden/t5", {{key, 5}});
    const Translator translator(folder.path());
    testing::expect_parts(message_of<DataError>([&] { translator.default_options(); }), {key, "found 5"});
  }
  options_of({{"eos_token_id", 1'000'000}});  // outside the vocabulary: it never comes, as in transformers
  options_of({{"guidance_scale", 1.0},
              {"num_beam_groups", 1},
              {"penalty_alpha", 0},
              {"stop_strings", nullptr},
              {"constraints", json::array()},
              {"typical_p", 1},
              {"token_healing", false},
              {"num_return_sequences", 1},
              {"use_cache", false},
              {"transformers_version", "5.24.0"}});
}

// The folder is at fault, not the caller.
TEST(SearchDefaults, ValuesThatNoSearchTakesAreErrorsOfTheFile) {
  for (const json& fields : {json{{"repetition_penalty", 0}}, json{{"encoder_repetition_penalty", -1.5}},
                             json{{"exponential_decay_length_penalty", {3, -2.0}}}}) {
    const WithFields folder(kData / "models/golden/gpt2_untied_relu", fields);
    const TextGenerator generator(folder.path());
    testing::expect_parts(message_of<DataError>([&] { generator.default_options(); }),
                          {"generation_config.json", std::string(fields.begin().key()).substr(0, 12)});
  }
}

// Sampling fields do not keep a folder from greedy search.
TEST(SearchDefaults, GreedySearchIgnoresFieldsOfSampling) {
  const WithFields folder(kData / "models/golden/gpt2_untied_relu", {{"typical_p", 0.5}});
  EXPECT_EQ(TextGenerator(folder.path()).default_options().search.beam, 1);
}

TEST(SearchDefaults, APromptOfMaxLengthIsAnError) {
  const WithFields folder(kData / "models/golden/gpt2_untied_relu", {{"max_length", 3}});
  const TextGenerator generator(folder.path());
  const std::vector<Prompt> prompts{{.text = "the man runs"}, {.text = "the man"}};
  const auto found = generator(prompts, generator.default_options());
  testing::expect_parts(found[0].error, {"max_length = 3"});
  EXPECT_EQ(found[1].completions.at(0).hypothesis.ids.size(), 1u);
}

}  // namespace
}  // namespace qkv::pipelines
