#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/explain/head_statistics.h"
#include "qkv/explain/image_attention.h"
#include "tests/explain/random_weights.h"

namespace qkv::explain {
namespace {

using nlohmann::json;

// Two heads over [CLS] a [SEP] b: the first attends to the preceding token (the first: to itself), the second
// to all alike.
AttentionReport pair_report() {
  std::vector<float> weights(2 * 4 * 4);
  for (size_t query = 0; query < 4; ++query) {
    weights[query * 4 + (query == 0 ? 0 : query - 1)] = 1;
    for (size_t key = 0; key < 4; ++key) weights[16 + query * 4 + key] = 0.25f;
  }
  AttentionReport report;
  report.source_tokens = report.target_tokens = {"[CLS]", "a", "[SEP]", "b"};
  report.source_special = {1, 0, 1, 0};
  report.second_text = 3;
  report.layers = {{Part::encoder, 0, Tensor::from(weights, {2, 4, 4})}};
  return report;
}

TEST(HeadStatistics, AreThoseByHand) {
  const AttentionReport report = pair_report();
  const auto heads = head_statistics(report, report.layers[0]);
  ASSERT_EQ(heads.size(), 2U);
  EXPECT_DOUBLE_EQ(heads[0].entropy, 0);
  EXPECT_DOUBLE_EQ(heads[0].largest, 1);
  EXPECT_DOUBLE_EQ(heads[0].first, 0.5);              // queries 0 and 1
  EXPECT_DOUBLE_EQ(heads[0].information, 1.5);        // keys 0, 0, 1, 2
  EXPECT_DOUBLE_EQ(heads[0].distance.value(), 0.75);  // 0 + 1 + 1 + 1
  EXPECT_DOUBLE_EQ(heads[0].special.value(), 0.75);   // keys 0, 0, 1, 2
  EXPECT_DOUBLE_EQ(heads[0].across.value(), 0.25);    // query 3, key 2
  EXPECT_DOUBLE_EQ(heads[1].entropy, 2);
  EXPECT_DOUBLE_EQ(heads[1].largest, 0.25);
  EXPECT_DOUBLE_EQ(heads[1].first, 0.25);
  EXPECT_DOUBLE_EQ(heads[1].information, 0);
  EXPECT_DOUBLE_EQ(heads[1].distance.value(), (6 + 4 + 4 + 6) / 16.0);
  EXPECT_DOUBLE_EQ(heads[1].special.value(), 0.5);
  EXPECT_DOUBLE_EQ(heads[1].across.value(), (3 * 0.25 + 0.75) / 4);
}

TEST(HeadStatistics, KnowWhatALayerDoesNotHave) {
  AttentionReport report;
  report.source_tokens = {"two", "</s>"};
  report.target_tokens = {"zwei", "!", "</s>"};
  report.target_inputs = {"<s>", "zwei", "!"};
  report.source_special = {0, 1};
  report.layers = {{Part::decoder, 0, random_weights(1, 3, 3, 1)},
                   {Part::cross, 0, random_weights(1, 3, 2, 2)}};
  const HeadStatistics decoder = head_statistics(report, report.layers[0])[0];
  EXPECT_TRUE(decoder.distance.has_value());
  EXPECT_FALSE(decoder.special.has_value());  // its keys are target tokens
  EXPECT_FALSE(decoder.across.has_value());
  const HeadStatistics cross = head_statistics(report, report.layers[1])[0];
  EXPECT_FALSE(cross.distance.has_value());
  const float* weights = report.layers[1].weights.data();
  EXPECT_NEAR(cross.special.value(), (weights[1] + weights[3] + weights[5]) / 3, 1e-6);
  const std::vector<HeadStatistics> one{cross};
  const json written = json::parse(to_json(one));
  EXPECT_EQ(written[0]["special"].get<double>(), *cross.special);
  EXPECT_FALSE(written[0].contains("distance"));
  report.layers[1].weights = random_weights(1, 3, 3, 3);
  EXPECT_THROW(head_statistics(report, report.layers[1]), ShapeError);
  report.layers[1].weights = Tensor();
  EXPECT_THROW(head_statistics(report, report.layers[1]), ShapeError);
}

TEST(HeadStatistics, OfImagesMeasureDistancesOnTheGrid) {
  // [CLS] and 2 x 3 patches. Each patch attends to [CLS] by half, and to the patch in the opposite corner of
  // its row and column order, 5 - p.
  ImageAttentionReport report;
  report.own_tokens = {"[CLS]"};
  report.rows = 2;
  report.columns = 3;
  std::vector<float> weights(49);
  weights[0] = 1;
  for (size_t p = 0; p < 6; ++p) {
    weights[(p + 1) * 7] = 0.5f;
    weights[(p + 1) * 7 + 1 + (5 - p)] = 0.5f;
  }
  const auto heads = head_statistics(report, Tensor::from(weights, {1, 7, 7}));
  ASSERT_EQ(heads.size(), 1U);
  const double corner = std::hypot(1, 2), middle = 1;
  EXPECT_NEAR(heads[0].distance.value(), (4 * corner + 2 * middle) / 6, 1e-12);
  EXPECT_NEAR(heads[0].special.value(), (1 + 6 * 0.5) / 7, 1e-12);
  EXPECT_NEAR(heads[0].entropy, 6.0 / 7, 1e-12);
  EXPECT_THROW(head_statistics(report, Tensor::from(weights, {1, 7, 7}).slice(1, 0, 3)), ShapeError);
}

TEST(HeadStatistics, StandInReportsWithBoundariesAndAlignment) {
  const AttentionReport pair = pair_report();
  const json written = json::parse(to_json(pair));
  EXPECT_EQ(written["second_text"], 3);
  EXPECT_EQ(written["source_special"], json({1, 0, 1, 0}));
  EXPECT_FALSE(written.contains("alignment"));
  EXPECT_EQ(written["layers"][0]["statistics"][1]["entropy"], 2.0);
  // The boundary: a line down and a line across in each of two maps.
  const auto marks = [](const std::string& svg, const std::string& mark) {
    size_t count = 0;
    for (size_t at = svg.find(mark); at != std::string::npos; at = svg.find(mark, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(marks(to_svg(pair), "stroke-width=\"1\""), 4U);
  AttentionReport aligned = pair;
  aligned.second_text.reset();
  aligned.target_inputs = aligned.target_tokens;
  aligned.alignment = {3, 2, 1, 0};
  aligned.layers[0].part = Part::cross;
  // Source tokens 3 and 1 are not special. The first head has no weight at the first of the two.
  EXPECT_EQ(marks(to_svg(aligned), "stroke-width=\"1\""), 3U);
  aligned.target_special = {0, 0, 1, 0};
  EXPECT_EQ(marks(to_svg(aligned), "stroke-width=\"1\""), 1U);
  EXPECT_EQ(json::parse(to_json(aligned))["alignment"], json({3, 2, 1, 0}));
}

TEST(HeadStatistics, TheMostInformativeHeadIsWhereThePageOpens) {
  AttentionReport report = pair_report();
  report.layers.push_back({Part::encoder, 1, random_weights(2, 4, 4, 1)});
  const HeadPlace place = most_informative_head(report, Part::encoder);
  EXPECT_EQ(place.layer, 0);
  EXPECT_EQ(place.head, 0);
  EXPECT_NE(to_html(report).find(R"("opens":{"encoder":[0,0]})"), std::string::npos);
  std::vector<float> own(32);  // each query has a key of its own: 2 bits
  for (size_t i = 0; i < 4; ++i) own[i * 4 + (3 - i)] = 1;
  report.layers.push_back({Part::encoder, 2, Tensor::from(own, {2, 4, 4})});
  EXPECT_EQ(most_informative_head(report, Part::encoder).layer, 2);
  EXPECT_THROW(most_informative_head(report, Part::cross), UsageError);
}

TEST(HeadStatistics, MarksThatDoNotFitAreRefused) {
  AttentionReport report = pair_report();
  report.source_special.pop_back();
  EXPECT_THROW(to_json(report), ShapeError);
  report = pair_report();
  report.second_text = 4;
  EXPECT_THROW(to_svg(report), UsageError);
  report = pair_report();
  report.alignment = {0, 1, 2, -1};
  EXPECT_THROW(to_html(report), UsageError);
  report.alignment = {0, 1, 2};
  EXPECT_THROW(to_html(report), ShapeError);
}

}  // namespace
}  // namespace qkv::explain
