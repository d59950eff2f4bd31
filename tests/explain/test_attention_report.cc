#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/explain/attention_report.h"
#include "tests/explain/random_weights.h"

namespace qkv::explain {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kHostile = {"</script><script>alert(1)</script>",
                                           "<!--",
                                           "a&b\"c'd",
                                           "\xe2\x80\xa8\xe2\x80\xa9",
                                           "\xff\xc0\x80",
                                           std::string("\x01\x00\n", 3),
                                           "{{SCRIPT}}",
                                           "]]>",
                                           "\xed\xa0\x80",
                                           "\xe6\x97\xa5\xe6\x9c\xac"};

AttentionReport small_report() {
  AttentionReport report;
  report.title = "two forty";
  report.model = "tiny";
  report.source_tokens = {"two", "forty", "</s>"};
  report.target_tokens = {"zwei", "vierzig", "!", "</s>"};
  report.target_inputs = {"<start>", "zwei", "vierzig", "!"};
  report.layers = {{Part::encoder, 0, random_weights(2, 3, 3, 1)},
                   {Part::encoder, 1, random_weights(2, 3, 3, 2)},
                   {Part::decoder, 0, random_weights(2, 4, 4, 3)},
                   {Part::cross, 0, random_weights(2, 4, 3, 4)}};
  return report;
}

AttentionReport hostile_report() {
  AttentionReport report;
  report.title = "<b>&</title></script>";
  report.model = "\"><img src=x>";
  report.source_tokens = kHostile;
  const auto count = static_cast<int64_t>(kHostile.size());
  report.layers = {{Part::encoder, 0, random_weights(3, count, count, 5)}};
  return report;
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

size_t occurrences(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

json page_data(const std::string& html) { return json::parse(between(html, "id=\"data\">", "</script>")); }

// Whether the text is a single XML element with balanced tags, only the five predefined entities and no
// forbidden characters.
testing::AssertionResult is_balanced_xml(const std::string& xml) {
  std::vector<std::string> open;
  size_t elements = 0;
  for (size_t at = 0; at < xml.size();) {
    const auto byte = static_cast<unsigned char>(xml[at]);
    if (byte < 0x20 && byte != '\n') return testing::AssertionFailure() << "control character at " << at;
    if (xml[at] == '&') {
      const std::string entity = xml.substr(at, xml.find(';', at) - at + 1);
      if (entity != "&lt;" && entity != "&gt;" && entity != "&amp;" && entity != "&quot;" &&
          entity != "&apos;") {
        return testing::AssertionFailure() << "entity " << entity.substr(0, 10);
      }
    }
    if (xml[at] != '<') {
      ++at;
      continue;
    }
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return testing::AssertionFailure() << "open tag at " << at;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with("?")) continue;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.starts_with("/")) {
      if (open.empty() || "/" + open.back() != tag) return testing::AssertionFailure() << "stray " << tag;
      open.pop_back();
    } else {
      if (occurrences(tag, "\"") % 2 != 0) return testing::AssertionFailure() << "quotes in " << tag;
      if (open.empty()) ++elements;
      if (!tag.ends_with("/")) open.push_back(name);
    }
  }
  if (!open.empty()) return testing::AssertionFailure() << open.back() << " never closes";
  if (elements != 1) return testing::AssertionFailure() << elements << " elements";
  return testing::AssertionSuccess();
}

TEST(AttentionJson, HoldsTokensAndEveryWeightToTheBit) {
  const AttentionReport report = small_report();
  const json parsed = json::parse(to_json(report));
  EXPECT_EQ(parsed["title"], "two forty");
  EXPECT_EQ(parsed["source_tokens"], json(report.source_tokens));
  EXPECT_EQ(parsed["target_tokens"], json(report.target_tokens));
  EXPECT_EQ(parsed["target_inputs"], json(report.target_inputs));
  ASSERT_EQ(parsed["layers"].size(), report.layers.size());
  for (size_t i = 0; i < report.layers.size(); ++i) {
    const AttentionLayer& layer = report.layers[i];
    EXPECT_EQ(parsed["layers"][i]["part"], name_of(layer.part));
    EXPECT_EQ(parsed["layers"][i]["layer"], layer.index);
    std::vector<float> found;
    for (const json& head : parsed["layers"][i]["heads"]) {
      for (const json& row : head) {
        EXPECT_EQ(static_cast<int64_t>(row.size()), layer.weights.dim(2));
        for (const json& weight : row) found.push_back(weight.get<float>());
      }
    }
    EXPECT_TRUE(std::ranges::equal(found, layer.weights.values())) << i;
  }
}

TEST(AttentionJson, ColumnViewsAreReadByTheirStride) {
  AttentionReport report = small_report();
  const Tensor wide = random_weights(2, 4, 5, 9);
  report.layers[3].weights = wide.columns(1, 3);
  const json heads = json::parse(to_json(report))["layers"][3]["heads"];
  EXPECT_EQ(heads[1][2][0].get<float>(), wide.data()[(1 * 4 + 2) * 5 + 1]);
  const json packed = page_data(to_html(report))["layers"][3]["heads"];
  EXPECT_EQ(packed[1][2 * 3].get<long>(), std::lround(wide.data()[(1 * 4 + 2) * 5 + 1] * 10000));
}

TEST(AttentionJson, HostileTokensStayData) {
  const json parsed = json::parse(to_json(hostile_report()));
  EXPECT_EQ(parsed["source_tokens"][0], kHostile[0]);
  EXPECT_EQ(parsed["source_tokens"][3], kHostile[3]);
  EXPECT_EQ(parsed["source_tokens"].size(), kHostile.size());
}

TEST(AttentionHtml, HoldsWeightsToFourDigits) {
  const AttentionReport report = small_report();
  const json data = page_data(to_html(report));
  EXPECT_EQ(data["source"], json(report.source_tokens));
  EXPECT_EQ(data["inputs"], json(report.target_inputs));
  ASSERT_EQ(data["layers"].size(), 4u);
  const json& heads = data["layers"][3]["heads"];
  ASSERT_EQ(heads.size(), 2u);
  for (size_t head = 0; head < 2; ++head) {
    ASSERT_EQ(heads[head].size(), 12u);
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_NEAR(heads[head][i].get<double>() / 10000, report.layers[3].weights.values()[head * 12 + i],
                  5.1e-5);
    }
  }
}

TEST(AttentionHtml, NeedsNothingFromOutside) {
  const std::string html = to_html(small_report());
  for (const char* word :
       {"http:", "https:", "//cdn", "src=", "@import", "url(", "fetch(", "XMLHttpRequest", "{{"}) {
    EXPECT_THAT(html, Not(HasSubstr(word)));
  }
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_LT(html.size(), 60000u);
}

TEST(AttentionHtml, HostileTokensStayData) {
  const std::string friendly = to_html(small_report()), html = to_html(hostile_report());
  for (const char* tag : {"<script", "</script", "</title", "<b>", "<img", "<!--"}) {
    EXPECT_EQ(occurrences(html, tag), occurrences(friendly, tag)) << tag;
  }
  EXPECT_THAT(html, HasSubstr("<title>&lt;b&gt;&amp;&lt;/title&gt;&lt;/script&gt;</title>"));
  EXPECT_THAT(html, Not(HasSubstr("\xe2\x80\xa8")));
  const json data = page_data(html);
  for (const size_t i : {0, 1, 2, 3, 5, 6, 7, 9}) EXPECT_EQ(data["source"][i], kHostile[i]);
  EXPECT_THAT(data["source"][4].get<std::string>(), HasSubstr("\xef\xbf\xbd"));  // was invalid UTF-8
}

TEST(AttentionSvg, IsBalancedXmlForFriendlyAndHostileTokens) {
  for (const AttentionReport& report : {small_report(), hostile_report()}) {
    EXPECT_TRUE(is_balanced_xml(to_svg(report)));
    EXPECT_TRUE(is_balanced_xml(to_svg(report, {.layer = 0, .head = 1})));
  }
  EXPECT_FALSE(is_balanced_xml("<a><b></a></b>"));
  EXPECT_FALSE(is_balanced_xml("<a>&x;</a>"));
}

TEST(AttentionSvg, ShowsWhatWasAskedFor) {
  const AttentionReport report = small_report();
  const auto maps = [](const std::string& svg) { return occurrences(svg, "crispEdges"); };
  EXPECT_EQ(maps(to_svg(report)), 8u);
  EXPECT_EQ(maps(to_svg(report, {.part = Part::encoder})), 4u);
  EXPECT_EQ(maps(to_svg(report, {.layer = 1})), 2u);
  EXPECT_EQ(maps(to_svg(report, {.head = 1})), 4u);
  const std::string one = to_svg(report, {.part = Part::cross, .layer = 0, .head = 1});
  EXPECT_EQ(maps(one), 1u);
  EXPECT_THAT(one, AllOf(HasSubstr(">vierzig<"), HasSubstr("Cross-attention, layer 1, head 2")));
  char text[16];
  std::snprintf(text, sizeof text, ">%.2f<", report.layers[3].weights.values()[12 + 2 * 3 + 1]);
  EXPECT_THAT(one, HasSubstr(text));
  EXPECT_THROW(to_svg(report, {.layer = 7}), UsageError);
  EXPECT_THROW(to_svg(report, {.head = 2}), UsageError);
  EXPECT_THROW(to_svg(report, {.head = -1}), UsageError);
}

TEST(AttentionSvg, HasADarkTheme) {
  const std::string light = to_svg(small_report()), dark = to_svg(small_report(), {.dark = true});
  EXPECT_TRUE(is_balanced_xml(dark));
  for (const auto& [colour, in_light, in_dark] : {std::tuple{"height=\"100%\" fill=\"#ffffff\"", 1u, 0u},
                                                  {"height=\"100%\" fill=\"#0d1117\"", 0u, 1u},
                                                  {"#f4f7fc", 4u, 0u},
                                                  {"#171c26", 0u, 4u}}) {  // the zero of the encoder's maps
    EXPECT_EQ(occurrences(light, colour), in_light) << colour;
    EXPECT_EQ(occurrences(dark, colour), in_dark) << colour;
  }
  for (const char* ink : {"#1b1f27", "#5d6675"}) EXPECT_EQ(occurrences(dark, ink), 0u) << ink;
}

TEST(AttentionSvg, DarkerCellsAreLargerWeights) {
  AttentionReport report = small_report();
  report.layers.resize(1);
  report.layers[0].weights = Tensor::from(std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0.5f, 0.5f}, {1, 3, 3});
  const std::string svg = to_svg(report);
  EXPECT_THAT(svg, HasSubstr("<path fill=\"#0d2a6b\" d=\"M0 0h1v1h-1zM1 1h1v1h-1z\"/>"));
  EXPECT_EQ(occurrences(svg, "<path"), 2u);
  EXPECT_THAT(svg, HasSubstr("d=\"M1 2h2v1h-2z\""));
}

TEST(AttentionReport, SaysWhatDisagrees) {
  const auto message = [](const AttentionReport& report) -> std::string {
    try {
      to_json(report);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  AttentionReport report = small_report();
  report.layers[3].weights = random_weights(2, 4, 4, 1);
  EXPECT_THROW(to_html(report), ShapeError);
  EXPECT_THROW(to_svg(report), ShapeError);
  EXPECT_THAT(message(report),
              AllOf(HasSubstr("cross layer 0"), HasSubstr("[2, 4, 3]"), HasSubstr("[2, 4, 4]")));
  report = small_report();
  report.layers[1].weights = random_weights(3, 3, 3, 1);
  EXPECT_THAT(message(report),
              AllOf(HasSubstr("encoder layer 1"), HasSubstr("[2, 3, 3]"), HasSubstr("[3, 3, 3]")));
  report = small_report();
  report.layers[0].weights = Tensor::zeros({2, 3, 3}, DType::i32);
  EXPECT_THROW(report.validate(), ShapeError);
  report.layers[0].weights = random_weights(1, 3, 3, 1).reshape({3, 3});
  EXPECT_THROW(report.validate(), ShapeError);
  report.layers[0].weights = Tensor();
  EXPECT_THROW(report.validate(), ShapeError);
  report = small_report();
  report.layers[1].index = 0;
  EXPECT_THROW(report.validate(), UsageError);
  report = small_report();
  report.layers[0].weights.data()[4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(report.validate(), NumericError);
  EXPECT_THROW(AttentionReport().validate(), UsageError);
}

TEST(AttentionReport, IsWrittenAsItsExtensionSays) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / concat("qkv-attention-report-", ::getpid());
  std::filesystem::create_directories(folder);
  const AttentionReport report = small_report();
  write_report(report, folder / "a.html");
  write_report(report, folder / "a.json");
  write_report(report, folder / "a.SVG");
  EXPECT_EQ(read_file(folder / "a.html"), to_html(report));
  EXPECT_EQ(read_file(folder / "a.json"), to_json(report));
  EXPECT_EQ(read_file(folder / "a.SVG"), to_svg(report));
  write_report(report, folder / "one.svg", {.layer = 1, .dark = true});
  EXPECT_EQ(read_file(folder / "one.svg"), to_svg(report, {.layer = 1, .dark = true}));
  EXPECT_THROW(write_report(report, folder / "b.html", {.dark = true}), UsageError);
  for (const char* name : {"a.png", "a", "html"}) {
    try {
      write_report(report, folder / name);
      ADD_FAILURE() << name;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(".html"), HasSubstr(".json"), HasSubstr(".svg")));
    }
  }
  EXPECT_THROW(write_report(report, folder / "no/a.html"), IoError);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace qkv::explain
