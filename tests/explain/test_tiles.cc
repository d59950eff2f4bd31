#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/explain/captured_report.h"
#include "qkv/explain/tiles.h"
#include "tests/explain/random_weights.h"
#include "tests/support/scratch.h"

namespace qkv::explain {
namespace {

using testing::message_of;

// Two queries of a tile give each tile of keys the mean of what they give its keys.
TEST(Tiles, AreMeansOverQueriesOfSumsOverKeys) {
  const Tensor weights = Tensor::from(std::vector<float>{1, 0, 0,             //
                                                         0.5f, 0.5f, 0,       //
                                                         0.25f, 0.25f, 0.5f,  //
                                                         0.2f, 0.3f, 0.5f,    //
                                                         0.6f, 0, 0.4f,       //
                                                         0.1f, 0.1f, 0.8f},
                                      {2, 3, 3});
  const Tensor tiles = tile_weights(weights, 2);
  ASSERT_EQ(tiles.shape(), (Shape{2, 2, 2}));
  const std::vector<float> expected{1, 0, 0.5f, 0.5f, 0.55f, 0.45f, 0.2f, 0.8f};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_FLOAT_EQ(tiles.values()[i], expected[i]) << i;

  const Tensor alone = tile_weights(weights, 1), one = tile_weights(weights, 5);
  EXPECT_EQ(std::vector<float>(alone.values().begin(), alone.values().end()),
            std::vector<float>(weights.values().begin(), weights.values().end()));
  ASSERT_EQ(one.shape(), (Shape{2, 1, 1}));
  EXPECT_EQ(tile_weights(weights, std::numeric_limits<int64_t>::max()).shape(), (Shape{2, 1, 1}));
  EXPECT_EQ(tile_labels({"a", "b"}, std::numeric_limits<int64_t>::max()),
            (std::vector<std::string>{"0 a \u2026"}));
  for (const float weight : one.values()) EXPECT_FLOAT_EQ(weight, 1);
}

TEST(Tiles, LabelsAndSizes) {
  EXPECT_EQ(tile_labels({"a", "b", "c", "d", "e"}, 2),
            (std::vector<std::string>{"0 a \u2026", "2 c \u2026", "4 e \u2026"}));
  EXPECT_EQ(tile_for(1), 1);
  EXPECT_EQ(tile_for(256), 1);
  EXPECT_EQ(tile_for(257), 3);
  EXPECT_EQ(tile_for(4096), 32);
  EXPECT_EQ(tile_for(4097), 33);
}

// A text of seven tokens, whose layers come one by one.
pipelines::TextAttention capture(const pipelines::AttentionSink& sink, const std::vector<Tensor>& layers) {
  pipelines::TextAttention text{.tokens = {"[CLS]", "a", "b", "[SEP]", "c", "d", "[SEP]"},
                                .special = {1, 0, 0, 1, 0, 0, 1},
                                .second_text = 4,
                                .attentions = {}};
  for (size_t i = 0; i < layers.size(); ++i)
    sink(text, {concat("encoder.layers.", i, ".self_attn"), layers[i]});
  return text;
}

TEST(Tiles, ReportHasTheStatisticsOfTheTokens) {
  const std::vector<Tensor> layers{random_weights(2, 7, 7, 1), random_weights(2, 7, 7, 2)};
  const CaptureText run = [&](const pipelines::AttentionSink& sink) { return capture(sink, layers); };
  const AttentionReport whole = tiled_report(run, 0, "a b | c d", "folder"),
                        tiles = tiled_report(run, 3, "a", "b");
  whole.validate();
  tiles.validate();
  EXPECT_EQ(whole.tile, 1);
  EXPECT_EQ(whole.source_tokens.size(), 7U);
  EXPECT_EQ(whole.second_text, 4);
  EXPECT_EQ(tiles.tile, 3);
  EXPECT_EQ(tiles.tiled_tokens, 7);
  EXPECT_EQ(tiles.source_tokens,
            (std::vector<std::string>{"0 [CLS] \u2026", "3 [SEP] \u2026", "6 [SEP] \u2026"}));
  EXPECT_EQ(tiles.second_text, 1);
  for (size_t i = 0; i < layers.size(); ++i) {
    EXPECT_EQ(whole.layers[i].weights.data(), layers[i].data());
    EXPECT_EQ(tiles.layers[i].weights.shape(), (Shape{2, 3, 3}));
    EXPECT_EQ(to_json(head_statistics(tiles, tiles.layers[i])),
              to_json(head_statistics(whole, whole.layers[i])));
  }
  const auto object = nlohmann::json::parse(to_json(tiles));
  EXPECT_EQ(object["tile"], 3);
  EXPECT_EQ(object["tokens"], 7);
  EXPECT_FALSE(nlohmann::json::parse(to_json(whole)).contains("tile"));
  EXPECT_TRUE(object["layers"][0]["statistics"][0].contains("special"));
  EXPECT_NE(to_html(tiles).find("\"statistics\":[{"), std::string::npos);
}

TEST(Tiles, LongTitlesAreCutBetweenCharacters) {
  const std::vector<Tensor> layers{random_weights(1, 7, 7, 1)};
  const CaptureText run = [&](const pipelines::AttentionSink& sink) { return capture(sink, layers); };
  std::string title(79, 'a');
  EXPECT_EQ(tiled_report(run, 2, title + "\u00e9b", "m").title, title + " \u2026");
  EXPECT_EQ(tiled_report(run, 1, title + "\u00e9b", "m").title, title + "\u00e9b");
}

TEST(Tiles, RefuseWhatIsNoTile) {
  const Tensor weights = random_weights(1, 3, 3, 1);
  const std::vector<Tensor> layers{random_weights(1, 7, 7, 1)};
  const CaptureText run = [&](const pipelines::AttentionSink& sink) { return capture(sink, layers); };
  EXPECT_NE(message_of<UsageError>([&] { tile_weights(weights, 0); }).find("found 0"), std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] { tiled_report(run, -1, "", ""); }).find("found -1"),
            std::string::npos);
  EXPECT_NE(message_of<ShapeError>([&] { tile_weights(Tensor(), 2); }).find("found none"), std::string::npos);
  EXPECT_NE(message_of<ShapeError>([&] {
              tile_weights(Tensor::zeros({2, 2}), 2);
            }).find("[2, 2]"),
            std::string::npos);
  AttentionReport broken = tiled_report(run, 3, "", "");
  broken.layers[0].statistics.push_back({});
  EXPECT_NE(message_of<ShapeError>([&] { broken.validate(); }).find("found 2"), std::string::npos);
  broken = tiled_report(run, 3, "", "");
  broken.tile = 0;
  EXPECT_NE(message_of<UsageError>([&] { broken.validate(); }).find("tile"), std::string::npos);
}

}  // namespace
}  // namespace qkv::explain
