#include "qkv/explain/image_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/explain/page_parts.h"
#include "tests/explain/random_weights.h"

namespace qkv::explain {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

ImageAttentionReport small_report() {
  ImageAttentionReport report;
  report.title = "<b>&</title></script>";
  report.model = "tiny";
  report.image = {.height = 4, .width = 6, .pixels = std::vector<uint8_t>(72)};
  for (size_t i = 0; i < 72; ++i) report.image.pixels[i] = static_cast<uint8_t>(3 * i);
  report.rows = 2;
  report.columns = 3;
  report.own_tokens = {"[CLS]", "<!--\xff"};
  report.layers = {random_weights(3, 8, 8, 1), random_weights(3, 8, 8, 2)};
  report.labels = {{"</script>", 0.75f}, {"cat", 0.25f}};
  return report;
}

TEST(Rollout, IsTheProductOfStepsThatKeepHalf) {
  // Two tokens, two heads: mean [[.5, .5], [.2, .8]], with half of the identity [[.75, .25], [.1, .9]].
  const Tensor layer = Tensor::from(std::vector{0.4f, 0.6f, 0.3f, 0.7f, 0.6f, 0.4f, 0.1f, 0.9f}, {2, 2, 2});
  const std::vector<Tensor> layers{layer, layer};
  const auto rollouts = attention_rollout(layers);
  ASSERT_EQ(rollouts.size(), 2u);
  const std::vector<double> first{0.75, 0.25, 0.1, 0.9};
  const std::vector<double> second{0.75 * 0.75 + 0.25 * 0.1, 0.75 * 0.25 + 0.25 * 0.9, 0.1 * 0.75 + 0.9 * 0.1,
                                   0.1 * 0.25 + 0.9 * 0.9};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(rollouts[0].values()[i], first[i], 1e-7);
    EXPECT_NEAR(rollouts[1].values()[i], second[i], 1e-7);
  }
}

TEST(Rollout, GoesUpwardsHasRowsOfOneAndTheSameBitsForAnyThreads) {
  const std::vector<Tensor> layers{random_weights(3, 20, 20, 1), random_weights(3, 20, 20, 2)};
  const std::vector<Tensor> turned{layers[1], layers[0]};
  const int before = threads();
  set_threads(1);
  const auto found = attention_rollout(layers);
  set_threads(3);
  EXPECT_TRUE(std::ranges::equal(attention_rollout(layers)[1].values(), found[1].values()));
  set_threads(before);
  EXPECT_FALSE(std::ranges::equal(attention_rollout(turned)[1].values(), found[1].values()));
  // The second step is the left factor.
  double expected = 0;
  for (int64_t k = 0; k < 20; ++k) {
    double mean = 0;
    for (int64_t head = 0; head < 3; ++head) mean += double{layers[1].data()[(head * 20 + 4) * 20 + k]} / 3;
    expected += (mean + (k == 4 ? 1 : 0)) / 2 * double{found[0].data()[k * 20 + 7]};
  }
  EXPECT_NEAR(found[1].data()[4 * 20 + 7], expected, 1e-6);
  for (int64_t row = 0; row < 20; ++row) {
    double sum = 0;
    for (int64_t key = 0; key < 20; ++key) sum += double{found[1].data()[row * 20 + key]};
    EXPECT_NEAR(sum, 1, 1e-6);
  }
  const std::vector<Tensor> unequal{layers[0], random_weights(3, 19, 19, 3)};
  EXPECT_THROW(attention_rollout(unequal), ShapeError);
}

TEST(Base64, IsThatOfTheRfc) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd\xfc"), "//79/A==");
}

TEST(ImageReport, JsonHoldsEveryWeight) {
  const ImageAttentionReport report = small_report();
  const json parsed = json::parse(to_json(report));
  EXPECT_EQ(parsed["patches"]["columns"], 3);
  EXPECT_EQ(parsed["region"], json({{"top", 0.0}, {"left", 0.0}, {"height", 1.0}, {"width", 1.0}}));
  EXPECT_EQ(parsed["labels"][1]["label"], "cat");
  ASSERT_EQ(parsed["layers"].size(), 2u);
  EXPECT_EQ(parsed["layers"][1]["heads"][2][7][5].get<float>(), report.layers[1].data()[(2 * 8 + 7) * 8 + 5]);
  EXPECT_EQ(parsed["rollout"][1][6][3].get<float>(), attention_rollout(report.layers)[1].data()[6 * 8 + 3]);
}

TEST(ImageReport, HtmlStandsAloneAndCannotBeBrokenOutOf) {
  const std::string html = to_html(small_report());
  for (const char* word : {"http:", "https:", "src=\"/", "@import", "url("})
    EXPECT_THAT(html, Not(HasSubstr(word)));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, HasSubstr("<title>&lt;b&gt;&amp;&lt;/title&gt;&lt;/script&gt;</title>"));
  EXPECT_THAT(html, Not(HasSubstr("{{")));
  const size_t begin = html.find("id=\"data\">") + 10;
  const json data = json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  EXPECT_EQ(data["title"], "<b>&</title></script>");
  EXPECT_EQ(data["labels"][0][0], "</script>");
  EXPECT_EQ(data["image"].get<std::string>().substr(0, 22), "data:image/png;base64,");
  // 3 heads of 8 rows: 2 + 1 floats and 6 bytes each, 4 letters for 3 bytes.
  EXPECT_EQ(data["layers"][0].get<std::string>().size(), 3u * 8 * (3 * 4 + 6) * 4 / 3);
  EXPECT_EQ(data["rollout"][1].get<std::string>().size(), 8u * (3 * 4 + 2 * 6) * 4 / 3);
  EXPECT_EQ(data["rollout"].size(), 2u);
}

TEST(ImageReport, SvgHasAMapForEachHead) {
  const std::string svg = to_svg(small_report());
  size_t maps = 0;
  constexpr const char* kMap = "<use href=\"#grey\"";
  for (size_t at = svg.find(kMap); at != std::string::npos; at = svg.find(kMap, at + 1)) ++maps;
  EXPECT_EQ(maps, 2u * (3 + 2));
  EXPECT_THAT(svg, HasSubstr("&lt;b&gt;&amp;&lt;/title&gt;"));
  EXPECT_THAT(svg, HasSubstr("Where [CLS] looks"));
}

TEST(ImageReport, RefusesWhatDoesNotFit) {
  const auto broken = [](const auto& breakit) {
    ImageAttentionReport report = small_report();
    breakit(report);
    return report;
  };
  EXPECT_THROW(to_html(broken([](auto& r) { r.layers.clear(); })), UsageError);
  EXPECT_THROW(to_html(broken([](auto& r) { r.own_tokens.clear(); })), UsageError);
  EXPECT_THROW(to_html(broken([](auto& r) { r.image = {}; })), UsageError);
  EXPECT_THROW(to_svg(broken([](auto& r) { r.columns = 4; })), ShapeError);
  EXPECT_THROW(to_json(broken([](auto& r) { r.layers[1] = random_weights(2, 8, 8, 1); })), ShapeError);
  EXPECT_THROW(to_json(broken([](auto& r) { r.layers[0] = {}; })), ShapeError);
  EXPECT_THROW(
      to_json(broken([](auto& r) { r.layers[1].values()[3] = std::numeric_limits<float>::quiet_NaN(); })),
      NumericError);
}

}  // namespace
}  // namespace qkv::explain
