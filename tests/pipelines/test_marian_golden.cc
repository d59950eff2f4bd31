#include <gtest/gtest.h>

#include "tests/pipelines/translation_golden.h"

namespace qkv::pipelines {
namespace {

using nlohmann::json;

Ragged one_sequence(const std::vector<int32_t>& ids) {
  const auto count = static_cast<int64_t>(ids.size());
  return {Tensor::from(ids, Shape{count}), Offsets::uniform(1, count)};
}

class MarianGolden : public testing::TranslationGolden {
 protected:
  MarianGolden() : TranslationGolden("marian") {}
};

TEST_F(MarianGolden, SameIds) {
  testing::expect_source_ids(*model_.tokenizer, cases_);
  int unknown = 0;
  for (const json& one : cases_) {
    for (const int32_t id : one["source_ids"].get<std::vector<int32_t>>())
      unknown += model_.tokenizer->piece(id) == "<unk>" ? 1 : 0;
  }
  EXPECT_GE(unknown, 5) << "some pieces are not in the vocabulary";
}

TEST_F(MarianGolden, SameLogits) {
  for (const json& one : cases_) {
    nn::ForwardContext context;
    const auto source = one["source_ids"].get<std::vector<int32_t>>();
    const auto target = one["start_and_target_ids"].get<std::vector<int32_t>>();
    const nn::Memory memory = model_.transformer->encode(one_sequence(source), context);
    const Variable hidden = model_.transformer->decode(one_sequence(target), memory, context);
    const Tensor logits = model_.transformer->logits()(hidden).value();
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

TEST_F(MarianGolden, SameTranslations) { expect_same_texts(4); }

}  // namespace
}  // namespace qkv::pipelines
