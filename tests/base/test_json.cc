#include "qkv/base/json.h"

#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "tests/support/scratch.h"

namespace qkv {
namespace {

using qkv::testing::message_of;

std::string refusal(const std::string& text, const JsonOptions& options = {}) {
  return message_of<DataError>([&] { parse_json(text, "a.json", options); });
}

TEST(Json, ValuesOfAllTypes) {
  const JsonValue root = parse_json(
      R"({"n": null, "yes": true, "no": false, "i": -7, "max": 9223372036854775807, "big": 18446744073709551615,
          "x": 0.125, "s": "a\n\u00e9\ud83d\ude00", "list": [1, "two", [3]], "o": {"k": {"m": 5}}, "e": []})",
      "a.json");
  EXPECT_TRUE(root["n"].is_null());
  EXPECT_TRUE(root["yes"].boolean());
  EXPECT_FALSE(root["no"].boolean());
  EXPECT_EQ(root["i"].integer(), -7);
  EXPECT_EQ(root["max"].integer(), 9223372036854775807);
  EXPECT_TRUE(root["big"].is_integer());
  EXPECT_EQ(root["big"].number(), 18446744073709551616.0);
  EXPECT_EQ(root["x"].number(), 0.125);
  EXPECT_EQ(root["i"].number(), -7);
  EXPECT_EQ(root["s"].string(), "a\né😀");
  EXPECT_EQ(root["list"].size(), 3u);
  EXPECT_EQ(root["list"].items()[2].items()[0].integer(), 3);
  EXPECT_EQ(root["o"]["k"]["m"].integer(), 5);
  EXPECT_TRUE(root["e"].items().empty());
  EXPECT_EQ(root.size(), 11u);
  EXPECT_EQ(root.find("n"), std::nullopt);
  EXPECT_EQ(root.find("none"), std::nullopt);
  EXPECT_EQ(root.find("i")->integer(), -7);
  EXPECT_EQ(root.string_or("none", "x"), "x");
  EXPECT_EQ(root.string_or("n", "x"), "x");
  EXPECT_TRUE(root.boolean_or("yes", false));
  EXPECT_TRUE(root.boolean_or("none", true));
  EXPECT_EQ(root.integer_or("i", 1, -10, 10), -7);
  EXPECT_EQ(root.integer_or("none", 1, -10, 10), 1);
  EXPECT_EQ(parse_json("17", "a").integer(), 17);
}

TEST(Json, ValuesOutliveTheirDocument) {
  const JsonValue inner = parse_json(R"({"a": [{"b": "text"}]})", "a.json")["a"].items()[0]["b"];
  EXPECT_EQ(inner.string(), "text");
  EXPECT_EQ(inner.path(), "a.json: a[0].b");
}

TEST(Json, MembersKeepTheirOrderAndTheLastDuplicateWins) {
  std::string seen;
  const JsonValue root = parse_json(R"({"z": 1, "a": 2, "z": 3, "b": [4, {"z": 5}]})", "a.json");
  root.members([&](std::string_view key, const JsonValue& value) {
    seen += concat(key, value.is_array() ? "*" : std::to_string(value.integer()), " ");
  });
  EXPECT_EQ(seen, "a2 z3 b* ");
  EXPECT_EQ(root["z"].integer(), 3);
  EXPECT_EQ(refusal(R"({"a": {"z": 1, "y": 2, "z": [3]}})", {.unique_keys = true}),
            "a.json: expected each name once, found z twice");
  EXPECT_EQ(parse_json(R"({"a": {"z": 1}, "z": {"a": 2}})", "a", {.unique_keys = true}).size(), 2u);
}

TEST(Json, ErrorsNamePathExpectedAndFound) {
  const JsonValue root = parse_json(
      R"({"o": {"list": [1, {"x": 1.5, "s": "word", "big": 4294967316}]}, "huge": 18446744073709551615})",
      "a.json");
  const JsonValue inner = root["o"]["list"].items()[1];
  const auto message = [](const auto& body) { return message_of<DataError>(body); };
  EXPECT_EQ(message([&] { inner["x"].integer(); }), "a.json: o.list[1].x: expected an integer, found 1.5");
  EXPECT_EQ(message([&] { inner["big"].integer(0, 2147483647); }),
            "a.json: o.list[1].big: expected an integer of at most 2147483647, found 4294967316");
  EXPECT_EQ(message([&] { inner.integer_or("big", 1, 0, 100); }),
            "a.json: o.list[1].big: expected an integer of at most 100, found 4294967316");
  EXPECT_EQ(message([&] { root["o"]["list"].items()[0].integer(2, 9); }),
            "a.json: o.list[0]: expected an integer of at least 2, found 1");
  EXPECT_EQ(message([&] { root["huge"].integer(2, 9); }),
            "a.json: huge: expected an integer of at most 9, found 18446744073709551615");
  EXPECT_EQ(message([&] { inner["x"].integer(1, 2); }),
            "a.json: o.list[1].x: expected an integer, found 1.5");
  EXPECT_EQ(message([&] { root["huge"].integer(); }),
            "a.json: huge: expected an integer, found 18446744073709551615");
  EXPECT_EQ(message([&] { inner["s"].number(); }), "a.json: o.list[1].s: expected a number, found \"word\"");
  EXPECT_EQ(message([&] { inner["s"].boolean(); }),
            "a.json: o.list[1].s: expected true or false, found \"word\"");
  EXPECT_EQ(message([&] { inner["x"].string(); }), "a.json: o.list[1].x: expected a string, found 1.5");
  EXPECT_EQ(message([&] { inner["x"].items(); }), "a.json: o.list[1].x: expected a list, found 1.5");
  EXPECT_EQ(message([&] { inner["x"]["y"]; }), "a.json: o.list[1].x: expected an object, found 1.5");
  EXPECT_EQ(message([&] { inner["y"]; }), "a.json: o.list[1]: expected a member 'y', found none");
  EXPECT_EQ(message([&] { root["o"].string(); }),
            R"(a.json: o: expected a string, found {"list":[1,{"x":1.5,"s":"word","big":4294967316}]})");
  EXPECT_EQ(message([&] { root.string(); }).substr(0, 33), "a.json: expected a string, found ");
}

TEST(Json, SyntaxErrorsNameLineAndColumn) {
  EXPECT_EQ(refusal("{\"a\": 1,\n  b: 2}"),
            "a.json: expected JSON, found a syntax error at line 2, column 3");
  EXPECT_EQ(refusal("{\n \"a\": 1e999}"),
            "a.json: expected JSON, found a number beyond double precision at line 2, column 11: 1e999");
  EXPECT_EQ(refusal("{\"a\": [1, 2"),
            "a.json: expected JSON, found the end of the text at line 1, column 12 (truncated?)");
  EXPECT_EQ(refusal(""), "a.json: expected JSON, found the end of the text at line 1, column 1 (truncated?)");
  EXPECT_NE(refusal("\"\xFF\"").find("syntax error at line 1, column 2"), std::string::npos);
  EXPECT_NE(refusal("{} {}").find("syntax error at line 1, column 4"), std::string::npos);
}

TEST(Json, DepthIsLimited) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(64), "a.json").is_array());
  const std::string message = "a.json: expected JSON nested at most 64 deep, found more";
  EXPECT_EQ(refusal(nested(65)), message);
  EXPECT_EQ(refusal(nested(5'000'000)), message);
  std::string objects;
  for (int i = 0; i < 120'000; ++i) objects += R"({"a":)";
  EXPECT_EQ(refusal(objects), message);
  EXPECT_TRUE(parse_json(nested(100), "a.json", {.max_depth = 100}).is_array());
}

TEST(Json, MessagesStayShort) {
  const std::string content = "{\"" + std::string(1000, 'k') + "\": \"" + std::string(200, 'x') + "é\"}";
  const JsonValue root = parse_json(content, "a.json");
  EXPECT_LT(message_of<DataError>([&] { root.string(); }).size(), 150u);
  root.members([](std::string_view, const JsonValue& value) {
    EXPECT_LT(message_of<DataError>([&] { value.integer(); }).size(), 250u);
  });
  std::string list = "[0";
  for (int i = 1; i < 100'000; ++i) list += ",1";
  EXPECT_EQ(parse_json(list + "]", "a.json").excerpt().size(), 83u);
}

TEST(Json, FloatsRoundTrip) {
  EXPECT_EQ(decimal(1.2f), 1.2);
  EXPECT_EQ(decimal(-0.0f), 0.0);
  for (const float value : {0.1f, 1e-45f, 3.4028235e38f, 16777217.0f, -2.0f / 3})
    EXPECT_EQ(static_cast<float>(decimal(value)), value) << value;
}

TEST(Json, StringsRoundTrip) {
  std::string text = "é😀\x7F";
  for (char c = 0; c < 0x30; ++c) text += c;
  text += '\\';
  EXPECT_EQ(parse_json(quoted_json(text), "a.json").string(), text);
  EXPECT_EQ(quoted_json("a\"\\\n\x01é"), "\"a\\\"\\\\\\n\\u0001é\"");
}

}  // namespace
}  // namespace qkv
