#pragma once
// Encoder-decoder folders written by transformers (tests/golden/marian_folder.py, t5_folder.py), and
// transformers' results.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/pipelines/translate.h"

namespace qkv::testing {

// Expects transformers' ids for each source.
inline void expect_source_ids(const text::TranslationTokenizer& tokenizer, const nlohmann::json& cases) {
  for (const nlohmann::json& one : cases) {
    std::vector<int32_t> ids = tokenizer.encode_source(one["source"].get<std::string>());
    ids.push_back(tokenizer.eos_id());
    EXPECT_EQ(ids, one["source_ids"].get<std::vector<int32_t>>()) << one["source"];
  }
}

class TranslationGolden : public ::testing::Test {
 protected:
  explicit TranslationGolden(const std::string& name)
      : folder_(std::filesystem::path(QKV_TEST_DATA) / "pipelines" / "golden" / name),
        loaded_(pipelines::open_translation_model(folder_)),
        model_(*loaded_),
        cases_(nlohmann::json::parse(read_file(folder_ / "expected.json"))) {}

  std::vector<std::string> sources() const {
    std::vector<std::string> sources;
    for (const nlohmann::json& one : cases_) sources.push_back(one["source"].get<std::string>());
    return sources;
  }

  // Compares beam search texts (with the folder's options) and greedy texts. Returns how many of the latter
  // ended before the limit.
  int expect_same_texts(int beam) const {
    const pipelines::Translator translator(loaded_);
    pipelines::TranslateOptions options = pipelines::default_options(model_);
    EXPECT_EQ(options.search.beam, beam) << "from generation_config.json";
    options.search.max_source_factor = 0;
    int ended = 0;
    for (const nlohmann::json& one : cases_) {
      const std::vector<std::string> source{one["source"].get<std::string>()};
      options.search.beam = beam;
      const pipelines::Translation by_beam = translator(source, options).at(0);
      EXPECT_EQ(by_beam.hypotheses.at(0).hypothesis.ids, one["beam_ids"].get<std::vector<int32_t>>());
      EXPECT_EQ(by_beam.text, one["beam_text"].get<std::string>());
      options.search.beam = 1;
      const search::Hypothesis greedy = translator(source, options).at(0).hypotheses.at(0).hypothesis;
      EXPECT_EQ(greedy.ids, one["greedy_ids"].get<std::vector<int32_t>>());
      ended += greedy.complete ? 1 : 0;
    }
    return ended;
  }

  const std::filesystem::path folder_;
  const std::shared_ptr<const models::TranslationModel> loaded_;
  const models::TranslationModel& model_;
  const nlohmann::json cases_;
};

}  // namespace qkv::testing
