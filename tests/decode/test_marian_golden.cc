#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "qkv/base/files.h"
#include "qkv/decode/translate.h"

namespace qkv::decode {
namespace {

using nlohmann::json;

constexpr const char* kFolder = QKV_TEST_DATA "/decode/golden/marian";

Ragged one_sequence(const std::vector<int32_t>& ids) {
  const auto count = static_cast<int64_t>(ids.size());
  return {Tensor::from(ids, Shape{count}), Offsets::uniform(1, count)};
}

// A folder that transformers wrote (tests/golden/marian_folder.py), and what transformers make of it.
class MarianGolden : public ::testing::Test {
 protected:
  const models::TranslationModel model_ = models::load_translation_model(kFolder);
  const json cases_ = json::parse(read_file(std::string(kFolder) + "/expected.json"));
};

TEST_F(MarianGolden, SameIds) {
  int unknown = 0;
  for (const json& one : cases_) {
    std::vector<int32_t> ids = model_.tokenizer->encode_source(one["source"].get<std::string>());
    ids.push_back(model_.tokenizer->eos_id());
    EXPECT_EQ(ids, one["source_ids"].get<std::vector<int32_t>>()) << one["source"];
    for (const int32_t id : ids) unknown += model_.tokenizer->piece(id) == "<unk>" ? 1 : 0;
  }
  EXPECT_GE(unknown, 5) << "some pieces are not in the vocabulary";
}

TEST_F(MarianGolden, SameLogits) {
  for (const json& one : cases_) {
    nn::Pass pass;
    const auto source = one["source_ids"].get<std::vector<int32_t>>();
    const auto target = one["start_and_target_ids"].get<std::vector<int32_t>>();
    const nn::Memory memory = model_.transformer->encode(one_sequence(source), pass);
    const Variable hidden = model_.transformer->decode(one_sequence(target), memory, pass);
    const Tensor logits = linear(hidden, model_.transformer->output_projection()).value();
    ASSERT_EQ(logits.shape(), (Shape{4, model_.tokenizer->size()}));
    for (int64_t row = 0; row < 4; ++row) {
      for (int64_t id = 0; id < logits.cols(); ++id) {
        EXPECT_NEAR(logits.data()[row * logits.cols() + id],
                    one["logits"][static_cast<size_t>(row)][static_cast<size_t>(id)].get<float>(), 5e-5)
            << one["source"] << ", token " << id << " after " << row + 1;
      }
    }
  }
}

TEST_F(MarianGolden, SameTranslations) {
  const Translator translator(model_);
  for (const json& one : cases_) {
    const std::vector<std::string> source{one["source"].get<std::string>()};
    TranslateOptions options = default_options(model_);
    ASSERT_EQ(options.search.beam, 4) << "from generation_config.json";
    options.search.max_source_factor = 0;
    const Translation beam = translator.translate(source, options).at(0);
    EXPECT_EQ(beam.hypotheses.at(0).hypothesis.ids, one["beam_ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(beam.text, one["beam_text"].get<std::string>());
    options.search.beam = 1;
    const Translation greedy = translator.translate(source, options).at(0);
    EXPECT_EQ(greedy.hypotheses.at(0).hypothesis.ids, one["greedy_ids"].get<std::vector<int32_t>>());
  }
}

}  // namespace
}  // namespace qkv::decode
