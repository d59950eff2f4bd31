#include <gtest/gtest.h>

#include "qkv/models/hub/copies.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/text_attention.h"
#include "tests/pipelines/translation_golden.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using nlohmann::json;
using qkv::testing::Scratch;

class T5Golden : public testing::TranslationGolden {
 protected:
  T5Golden() : TranslationGolden("t5") {}
};

TEST_F(T5Golden, SameIds) { testing::expect_source_ids(*model_.tokenizer, cases_); }

// An older folder has no tokenizer.json: the model's pieces are followed by a hundred sentinels in descending
// order.
TEST_F(T5Golden, SameIdsFromTheSentencePieceModelAlone) {
  const Scratch folder;
  std::filesystem::copy_file(folder_ / "spiece.model", folder / "spiece.model");
  std::filesystem::copy_file(folder_ / "config.json", folder / "config.json");
  const auto tokenizer = text::TranslationTokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.size(), 144);
  EXPECT_EQ(tokenizer.piece(143), "<extra_id_0>");
  EXPECT_EQ(tokenizer.piece(44), "<extra_id_99>");
  json plain = cases_;  // </s> is plain text here, as in SentencePiece
  std::erase_if(plain.get_ref<json::array_t&>(), [](const json& one) {
    return one["source"].get<std::string>().find("</s>") != std::string::npos;
  });
  EXPECT_EQ(plain.size() + 1, cases_.size());
  testing::expect_source_ids(tokenizer, plain);
  for (const json& one : cases_)
    EXPECT_EQ(tokenizer.decode(one["beam_ids"].get<std::vector<int32_t>>()),
              one["beam_text"].get<std::string>());
  folder.write("tokenizer_config.json", R"({"extra_ids": 3})");
  EXPECT_EQ(text::TranslationTokenizer::load(folder.path()).size(), 47);
  folder.write("tokenizer_config.json", R"({"extra_ids": -3})");
  EXPECT_THROW(text::TranslationTokenizer::load(folder.path()), DataError);
}

TEST_F(T5Golden, SameText) { EXPECT_GT(expect_same_texts(3), 0); }

// Rows without a token, as at the end of T5's tables, decode to nothing.
TEST_F(T5Golden, RowsWithoutTokensDecodeToNothing) {
  EXPECT_EQ(model_.config.target_vocabulary, 148);
  EXPECT_EQ(model_.tokenizer->size(), 144);
  EXPECT_EQ(model_.tokenizer->piece(147), "");
  const std::vector<int32_t> ids{14, 147, 8, 19};
  EXPECT_EQ(model_.tokenizer->decode(ids), "twenty-one");
}

// A quantised folder equals this one quantised on loading.
TEST_F(T5Golden, CanBeQuantized) {
  for (const DType dtype : {DType::bf16, DType::i8}) {
    const Scratch folder;
    models::quantize_folder(folder_, folder / "smaller", dtype);
    const Translator found(folder / "smaller");
    const Translator expected(folder_, {.dtype = dtype});
    EXPECT_EQ(models::weight_dtype(*found.model().transformer), dtype);
    EXPECT_EQ(found.model().generation.beam, 3);
    const std::string config = read_file(folder / "smaller" / "config.json");
    EXPECT_EQ(config.find("\"model_type\": \"t5\"") != std::string::npos, dtype == DType::bf16) << config;
    const auto texts = found(sources(), found.default_options());
    const auto wanted = expected(sources(), expected.default_options());
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(texts[i].text, wanted[i].text);
      EXPECT_EQ(texts[i].hypotheses.at(0).hypothesis.score, wanted[i].hypotheses.at(0).hypothesis.score);
    }
  }
}

// The encoder alone, for embeddings.
TEST_F(T5Golden, SameVectors) {
  const TextEmbedder encoder(folder_);
  const std::vector<Embedded> found = encoder(sources());
  for (size_t i = 0; i < cases_.size(); ++i) {
    const auto expected = cases_[i]["vector"].get<std::vector<float>>();
    ASSERT_EQ(found[i].values.size(), expected.size()) << found[i].error;
    for (size_t k = 0; k < expected.size(); ++k)
      EXPECT_NEAR(found[i].values[k], expected[k], 5e-6) << cases_[i]["source"] << ", " << k;
  }
  std::string any_length;
  for (int i = 0; i < 600; ++i) any_length += "one ";
  EXPECT_EQ(encoder(std::span(&any_length, 1)).front().error, "");
  EXPECT_EQ(capture_attention(*encoder.encoder(), "twenty-one").attentions.size(), 2u);
}

TEST_F(T5Golden, AttentionOfAPairIsCaptured) {
  const TextCapture found = capture_text(model_, "twenty-one", "two", {});
  EXPECT_EQ(found.source_tokens, (std::vector<std::string>{"▁twenty", "-", "one", "</s>"}));
  ASSERT_EQ(found.capture.attentions.size(), 6u) << "two layers of an encoder, two of a decoder";
  EXPECT_EQ(found.capture.attentions[0].name, "encoder.layers.0.self_attn");
  EXPECT_EQ(found.target_input_tokens.front(), "<pad>");
}

}  // namespace
}  // namespace qkv::pipelines
