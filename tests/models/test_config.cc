#include "qkv/models/config.h"

#include <gtest/gtest.h>

#include <tuple>

#include "qkv/models/hub/family.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/transformer.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using qkv::testing::message_of;
using qkv::testing::Scratch;

TransformerConfig with_vocabulary(TransformerConfig config, int64_t size) {
  config.source_vocabulary = config.target_vocabulary = size;
  return config;
}

// All rows of the paper's Table 3 that change the size, in millions of parameters. The paper rounds, and its
// vocabulary size is only known roughly (37,000 shared pieces), so rows that do not affect the vocabulary's
// share are compared by their difference from base, to the rounding of both.
TEST(Presets, MatchThePapersParameterCounts) {
  using Fields = std::vector<std::pair<std::string, std::string>>;
  const auto millions = [](TransformerConfig config, const Fields& changes = {}) {
    for (const auto& [name, value] : changes) EXPECT_TRUE(set_field(config, name, value)) << name;
    return static_cast<double>(nn::count_parameters(Transformer(with_vocabulary(config, 37000)))) / 1e6;
  };
  const double base = millions(preset("base"));
  EXPECT_NEAR(base, 65, 65 * 0.05);
  EXPECT_NEAR(millions(preset("big")), 213, 213 * 0.05);
  const std::vector<std::pair<Fields, double>> rows{
      {{{"heads", "1"}}, 65},                                    // A
      {{{"heads", "4"}}, 65},                                    // A
      {{{"heads", "16"}}, 65},                                   // A
      {{{"heads", "32"}, {"d_k", "16"}, {"d_v", "16"}}, 65},     // A
      {{{"d_k", "16"}}, 58},                                     // B
      {{{"d_k", "32"}}, 60},                                     // B
      {{{"encoder_layers", "2"}, {"decoder_layers", "2"}}, 36},  // C
      {{{"encoder_layers", "4"}, {"decoder_layers", "4"}}, 50},  // C
      {{{"encoder_layers", "8"}, {"decoder_layers", "8"}}, 80},  // C
      {{{"d_ff", "1024"}}, 53},                                  // C
      {{{"d_ff", "4096"}}, 90},                                  // C
      {{{"dropout", "0"}}, 65}};                                 // D
  for (const auto& [changes, expected] : rows) {
    EXPECT_NEAR(millions(preset("base"), changes) - base, expected - 65, 1)
        << changes[0].first << changes[0].second;
  }
  EXPECT_NEAR(millions(preset("base"), {{"d_model", "256"}, {"d_k", "32"}, {"d_v", "32"}}), 28,
              28 * 0.08);  // C
  EXPECT_NEAR(millions(preset("base"), {{"d_model", "1024"}, {"d_k", "128"}, {"d_v", "128"}}), 168,
              168 * 0.05);                                                                              // C
  EXPECT_NEAR(millions(preset("base"), {{"positions", "learned"}}) - base, 2 * 512 * 512 / 1e6, 1e-6);  // E
}

// Writes and reads a configuration with a family.
TransformerConfig read_back(const TranslationFamily& family, const TransformerConfig& config) {
  return family.parse(ConfigReader(family.serialize(config).json(), "config.json"));
}

TEST(Config, EveryFieldRoundTripsInBothLayouts) {
  TransformerConfig config = with_vocabulary(preset("tiny"), 100);
  config.pad_id = config.decoder_start_id = 99;
  config.activation = Activation::silu;
  config.dropout = 0.25f;
  config.embedding_dropout = 0.125f;
  config.attention_dropout = 0.0625f;
  config.activation_dropout = 0.5f;
  config.max_positions = 77;
  config.scale_embedding = false;
  const TranslationFamily marian = *find_family(translation_families(), "marian"),
                          qkv = *find_family(translation_families(), "qkv");
  ASSERT_TRUE(marian.fits(config));
  EXPECT_EQ(fields(read_back(marian, config)), fields(config));
  EXPECT_EQ(fields(read_back(qkv, config)), fields(config));
  TransformerConfig without_end = config;
  without_end.source_eos = false;
  EXPECT_FALSE(marian.fits(without_end)) << "its tokenizer adds </s>";
  EXPECT_FALSE(find_family(translation_families(), "t5")->fits(without_end));
  EXPECT_FALSE(read_back(qkv, without_end).source_eos);
  config.tying = Tying::two_way;
  config.source_vocabulary = 80;
  ASSERT_TRUE(marian.fits(config));
  EXPECT_EQ(fields(read_back(marian, config)), fields(config));
  config.decoder_heads = 8;
  config.decoder_d_ff = 30;
  ASSERT_TRUE(marian.fits(config));
  EXPECT_EQ(fields(read_back(marian, config)), fields(config));
  config.norm = nn::NormPlacement::pre;
  config.embedding_norm = true;
  config.first_position = 2;
  config.d_k = 3;
  config.d_v = 5;
  config.positions = nn::PositionKind::learned;
  ASSERT_FALSE(marian.fits(config));
  EXPECT_NE(message_of<UsageError>([&] { marian.serialize(config); }).find("marian: d_k: expected 32, as"),
            std::string::npos);
  EXPECT_EQ(fields(read_back(qkv, config)), fields(config));
}

TEST(Config, RejectsInvalidValues) {
  EXPECT_NE(message_of<UsageError>([] { preset("huge"); }).find("tiny, small, base, big"), std::string::npos);
  TransformerConfig config = with_vocabulary(preset("tiny"), 10);
  EXPECT_FALSE(set_field(config, "wings", "2"));
  EXPECT_EQ(message_of<UsageError>([&] { set_field(config, "norm", "middle"); }),
            "norm: expected one of post, pre, found 'middle'");
  EXPECT_EQ(message_of<UsageError>([&] { set_field(config, "d_model", "12x"); }),
            "d_model: expected a whole number, found '12x'");
  config.heads = 5;
  EXPECT_NE(message_of<UsageError>([&] { config.validate(); }).find("found 5"), std::string::npos);
  config.heads = 4;
  config.dropout = 1;
  EXPECT_NE(message_of<UsageError>([&] { config.validate(); }).find("dropout"), std::string::npos);
}

TEST(Config, RejectsForeignFilesByName) {
  const Scratch folder;
  const auto refusal = [&](const std::string& text) {
    folder.write("config.json", text);
    return message_of<DataError>([&] { load_transformer(folder.path()); });
  };
  EXPECT_NE(refusal("{").find("/config.json: expected JSON"), std::string::npos);
  EXPECT_NE(refusal("[1]").find("config.json: expected an object, found [1]"), std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "bert"})")
                .find("expected an encoder-decoder (t5, marian, qkv, bart, mbart, m2m_100"),
            std::string::npos);
  EXPECT_NE(
      refusal(R"({"model_type": "marian"})").find("config.json: d_model: expected an integer, found nothing"),
      std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "qkv", "qkv": {"d_model": "many"}})")
                .find("/config.json: d_model: expected a whole number, found 'many'"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "qkv", "qkv": {"wings": "2"}})")
                .find("config.json: qkv.wings: unknown field"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "qkv"})")
                .find("config.json: qkv: expected an object of fields, found nothing"),
            std::string::npos);
  EXPECT_NE(
      refusal(R"({"model_type": "qkv", "qkv": {"d_model": "-1"}})").find("config.json: source_vocabulary"),
      std::string::npos);
}

}  // namespace
