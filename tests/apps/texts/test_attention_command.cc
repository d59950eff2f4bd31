// The attention of texts and translations.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class TextAttention : public CommandTest {
 protected:
  std::string draw(const std::string& options, const std::string& name) const {
    output(concat("attention ", options, " --out @/", name));
    return content(name);
  }
  json report_of(const std::string& options) const { return json::parse(draw(options, "report.json")); }

  const std::string pair_ = "%bert_texts --source 'a red dog' --pair 'one small house'";
};

TEST_F(TextAttention, ReportsAPair) {
  const json report = report_of(pair_);
  const size_t tokens = report["source_tokens"].size();
  EXPECT_EQ(report["source_tokens"][0], "[CLS]");
  const auto second = report["second_text"].get<size_t>();
  ASSERT_LT(second, tokens);
  EXPECT_EQ(report["source_tokens"][second - 1], "[SEP]");
  for (const json& layer : report["layers"]) {
    ASSERT_EQ(layer["statistics"].size(), layer["heads"].size());
    for (const json& head : layer["statistics"]) {
      EXPECT_GT(head["entropy"].get<double>(), 0);
      EXPECT_LE(head["entropy"].get<double>(), std::log2(static_cast<double>(tokens)) + 1e-6);
      EXPECT_GT(head["across"].get<double>(), 0);
      EXPECT_LT(head["across"].get<double>(), 1);
    }
  }
  // In int8 other weights, of the same tokens.
  const json rounded = report_of(pair_ + " --dtype int8");
  EXPECT_EQ(rounded["source_tokens"], report["source_tokens"]);
  const json weights = report["layers"].flatten(), near = rounded["layers"].flatten();
  double largest = 0;
  for (const auto& [name, weight] : weights.items()) {
    if (name.find("/heads/") == std::string::npos) continue;
    largest = std::max(largest, std::abs(weight.get<double>() - near.at(name).get<double>()));
  }
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 0.05);
  expect_parts(draw(pair_, "pair.html"), {"\"second\":" + std::to_string(second)});
  // A panel's boundary: one line across, one down.
  const auto lines = [](const std::string& drawing) {
    size_t count = 0;
    for (size_t at = 0; (at = drawing.find("stroke-width=\"1\"", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(lines(draw(pair_, "pair.svg")),
            lines(draw("%bert_texts --source a", "one.svg")) +
                2 * report["layers"].size() * report["layers"][0]["heads"].size());

  // Tiles of three tokens; statistics are per token.
  const json tiles = report_of(pair_ + " --tile 3");
  EXPECT_EQ(tiles["tile"], 3);
  EXPECT_EQ(tiles["tokens"], tokens);
  EXPECT_EQ(tiles["source_tokens"].size(), (tokens + 2) / 3);
  for (size_t i = 0; i < report["layers"].size(); ++i)
    EXPECT_EQ(tiles["layers"][i]["statistics"], report["layers"][i]["statistics"]);
}

TEST_F(TextAttention, AlignsATranslation) {
  const json translation = report_of("%marian --source forty");
  ASSERT_EQ(translation["alignment"].size(), translation["target_tokens"].size());
  for (const json& source : translation["alignment"])
    EXPECT_LT(source.get<size_t>(), translation["source_tokens"].size());
}

TEST_F(TextAttention, RefusesOptionsOfOtherModels) {
  expect_refused("attention %marian --source a --tile 2 --out @/a.json", 2,
                 {"--tile: not for encoder-decoders"});
  expect_refused("attention %marian --source a --layer 1 --out @/a.json", 2, {"layer", ".svg", "a.json"});
  expect_refused("attention %marian --source a --part cross --layer 9 --out @/a.svg", 2,
                 {"part cross, layer 9"});
  expect_refused("attention %llama --source a --tile -2 --out @/a.json", 2, {"tile", "-2"});
  for (const char* other : {"%llama", "%marian"}) {
    expect_refused(concat("attention ", other, " --source a --pair b --out @/a.json"), 2,
                   {"--pair: only for text encoders"});
  }
}

}  // namespace
}  // namespace qkv::testing
