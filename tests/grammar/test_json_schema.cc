#include "qkv/grammar/json_schema.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/grammar/machine.h"
#include "tests/grammar/accepts.h"
#include "tests/support/scratch.h"

namespace qkv::grammar {
namespace {

using testing::expect_throw;

Machine machine_of(const std::string& schema) { return Machine(grammar_of_json_schema(schema, "schema")); }

struct Case {
  const char* schema;
  std::vector<const char*> allowed, refused;
};

const std::vector<Case> kCases{
    {R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "ok": {"type":
"boolean"}}, "required": ["name", "ok"], "additionalProperties": false})",
     {R"({"name":"a","ok":true})", R"({"name": "a", "age": -3, "ok": false})",
      "{\n  \"name\": \"\",\n  \"ok\": true\n}"},
     {R"({})", R"({"name":"a"})", R"({"ok":true,"name":"a"})", R"({"name":"a","age":1.5,"ok":true})",
      R"({"name":"a","ok":true,})", R"({"name":"a","ok":true,"x":1})", R"({"name":a,"ok":true})",
      R"({"name":"a","ok":true)"}},
    {R"({"type": "object", "properties": {"a": {"type": "null"}, "b": {"const": 1}, "c": {}}})",
     {R"({})", R"({"a":null})", R"({"b":1})", R"({"c":[{"x":1e5}]})", R"({"a":null,"c":""})",
      R"({"a":null,"b":1,"c":0})"},
     {R"({"b":2})", R"({,"b":1})", R"({"b":1,"a":null})", R"({"d":1})"}},
    {R"({"type": "object"})",
     {R"({})", R"({ })", R"({"a":1})", R"({"a": {"b": [1, 2.5, -0, "x", null, true, {}]}})",
      R"({"ä\u00e4": "\ud83d\ude00😀"})"},
     {R"([])", R"("a")", R"({"a"})", R"({a:1})", R"({"a":01})", R"({"a":+1})", R"({"a":1.})", R"({"a":.5})",
      R"({"a":"\x"})", R"({"a":"\ud83d"})", R"({"a":"\ude00"})", "{\"a\":\"\n\"}", "{\"a\":\"\xFF\"}",
      "{\"a\":\"\xC0\x80\"}", "{\"a\":\"\xED\xA0\x80\"}", "{\"a\":\"\xF4\x90\x80\x80\"}", R"({"a":tru})",
      R"({}{})", R"( {})"}},
    {R"({"properties": {"a": {"properties": {"b": {"const": 1}}}, "a.properties.b": {"const": "x"}}})",
     {R"({"a":{"b":1},"a.properties.b":"x"})"},
     {R"({"a.properties.b":1})", R"({"a":{"b":"x"}})"}},
    {R"({"additionalProperties": {"type": "number"}, "type": "object"})",
     {R"({})", R"({"x":1.5,"y":-2e-3})"},
     {R"({"x":"1"})", R"({"x":1,})"}},
    {R"({"type": "object", "properties": {}, "additionalProperties": false})", {"{}"}, {R"({"a":1})"}},
    {R"({"type": "array", "items": {"type": "integer"}})",
     {"[]", "[1]", "[1,2, 3,\n 4]"},
     {"[1,]", "[1.5]", "[,1]", "1"}},
    {R"({"type": "array", "items": {"enum": [1, "a", null, [2], {"b": true}]}, "minItems": 2, "maxItems": 3})",
     {R"([1,"a"])", R"([null,[2],{"b":true}])"},
     {"[]", "[1]", "[1,1,1,1]", R"([1,"b"])"}},
    {R"({"type": "array", "maxItems": 0})", {"[]", "[ ]"}, {"[1]"}},
    {R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 3}, "minItems": 1, "maxItems": 4})",
     {"[1]", "[1,2]", "[1,2,3]", "[1,2,3,3]"},
     {"[]", "[2]", "[1,3]", "[1,2,3,3,3]"}},
    {R"({"prefixItems": [{"const": 1}, {"const": 2}], "minItems": 2})", {"[1,2]"}, {"[1]", "[1,2,3]", "[]"}},
    {R"({"type": "string", "minLength": 2, "maxLength": 3})",
     {R"("ab")", R"("äö😀")", R"("\n\u00e4\"")"},
     {R"("a")", R"("abcd")", R"("")", R"("äö😀a")"}},
    {R"({"type": "string", "minLength": 1})", {R"("a")", R"("abcdefghij")"}, {R"("")"}},
    {R"({"type": ["string", "null"]})", {R"("a")", "null"}, {"1", "nul"}},
    {R"({"type": "integer", "minimum": 0, "exclusiveMaximum": 20})",
     {"0", "7", "19"},
     {"-1", "20", "1.0", "07"}},
    {R"({"type": "integer", "exclusiveMinimum": -3})", {"-2", "0", "1234567"}, {"-3", "-10"}},
    {R"({"type": "number"})", {"0", "-0.5", "1e5", "1.25E-10", "123"}, {"1e", "0.", "--1", "1e100", "00.5"}},
    {R"({"anyOf": [{"type": "integer"}, {"type": "boolean"}], "title": "T", "default": 1})",
     {"1", "true"},
     {"null"}},
    {R"({"oneOf": [{"const": "a"}, {"const": "ab"}]})", {R"("a")", R"("ab")"}, {R"("b")"}},
    {R"({"const": null})", {"null"}, {"1", "true"}},
    {R"({"type": ["string", "number"], "enum": [1, "a", null, true]})", {"1", R"("a")"}, {"null", "true"}},
    {R"({"const": 2, "enum": [1, 2]})", {"2"}, {"1"}},
    {R"({"type": "integer", "minimum": -1.5, "maximum": 1e30})", {"-1", "7"}, {"-2"}},
    {R"({"type": "array", "minItems": 1.0, "uniqueItems": false, "x-order": 3})", {"[1]"}, {"[]"}},
    {R"({"properties": {"a": {"const": 1}}, "additionalProperties": true, "minProperties": 0})",
     {R"({"a":1})", "{}"},
     {R"({"b":1})"}},
    {R"({"enum": ["a\"b", "ä", 1.5]})", {R"("a\"b")", R"("ä")", "1.5"}, {R"("a")"}},
    {R"({"anyOf": [{"const": "ab"}, {"type": "integer", "maximum": 9}, {"enum": ["a", "abc", "ab"], "title": "t"}]})",
     {R"("a")", R"("ab")", R"("abc")", "7"},
     {R"("b")", R"("abcd")", "12"}},
    {R"({"enum": ["abd", "", "a", "ab", "abc", "ab", 1, 12, 2]})",
     {R"("")", R"("a")", R"("ab")", R"("abc")", R"("abd")", "1", "12", "2"},
     {R"("abcd")", R"("ac")", R"("b")", "11", "22", "3", R"("ab)"}},
    {R"(true)", {"1", "{}", R"("a")", "[[]]"}, {"", "a"}},
    {R"({"$defs": {"node": {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref":
"#/$defs/node"}, {"type": "null"}]}}, "required": ["value", "next"]}}, "$ref": "#/$defs/node"})",
     {R"({"value":1,"next":null})", R"({"value": 1, "next": {"value": 2, "next": null}})"},
     {R"({"value":1,"next":{}})", R"({"value":1})"}},
    {R"({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["children"]})",
     {R"({"children":[]})", R"({"children":[{"children":[]},{"children":[]}]})"},
     {R"({"children":[1]})"}},
    {R"({"properties": {"a/b~c": {"const": 1}, "d": {"$ref": "#/properties/a~1b~0c"}}})",
     {R"({"a/b~c":1,"d":1})"},
     {R"({"d":2})"}},
    {R"({"allOf": [{"$ref": "#/definitions/x"}], "definitions": {"x": {"type": "boolean"}}})",
     {"true"},
     {"1"}},
};

TEST(JsonSchema, DescribesTexts) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.schema);
    Machine machine = machine_of(one.schema);
    for (const char* text : one.allowed) {
      EXPECT_TRUE(accepts(machine, text)) << text;
      EXPECT_NO_THROW(parse_json(text, "text"));
    }
    for (const char* text : one.refused) EXPECT_FALSE(accepts(machine, text)) << text;
  }
}

// Random texts of the grammars are JSON, and no beginning is a dead end.
TEST(JsonSchema, AllTextsAreJson) {
  std::mt19937 random(1);
  int longest = 0;
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.schema);
    Machine machine = machine_of(one.schema);
    for (int round = 0; round < 100; ++round) {
      std::string text;
      Machine::State state = machine.start();
      while (!machine.may_end(state) || random() % 4 != 0) {
        std::vector<uint8_t> next;
        for (int byte = 0; byte < 256; ++byte) {
          // Closing ones often, so that texts end.
          const bool closes =
              std::string_view("\"]}").find(static_cast<char>(byte)) != std::string_view::npos;
          if (machine.next(state, static_cast<uint8_t>(byte)) != Machine::kDead)
            next.insert(next.end(), closes ? 40 : 1, static_cast<uint8_t>(byte));
        }
        if (next.empty()) break;
        const uint8_t byte = next[random() % next.size()];
        text += static_cast<char>(byte);
        state = machine.next(state, byte);
        if (text.size() > 2000) break;
      }
      if (text.size() > 2000) continue;
      EXPECT_TRUE(machine.may_end(state)) << text;
      EXPECT_NO_THROW(parse_json(text, "text")) << text;
      longest = std::max(longest, static_cast<int>(text.size()));
    }
  }
  EXPECT_GT(longest, 100);
}

// Their places in messages are equal, as long names are cut there.
TEST(JsonSchema, PropertiesWithLongNamesHaveTheirOwnSchemas) {
  const std::string name(200, 'k');
  Machine machine =
      machine_of(R"({"properties": {")" + name + R"(1": {"properties": {"v": {"const": 1}}}, ")" + name +
                 R"(2": {"properties": {"v": {"const": "x"}}}}})");
  EXPECT_TRUE(accepts(machine, R"({")" + name + R"(1":{"v":1},")" + name + R"(2":{"v":"x"}})"));
  EXPECT_FALSE(accepts(machine, R"({")" + name + R"(2":{"v":1}})"));
}

TEST(JsonSchema, CanBeARuleOfAGrammar) {
  Grammar grammar;
  const int32_t start = grammar.new_rule();
  EXPECT_THROW(add_json_schema(grammar, R"({"type": "array", "contains": {}})", "a"), DataError);
  grammar.truncate(start + 1);
  EXPECT_EQ(grammar.rules().size(), 1U);
  const int32_t one = add_json_schema(grammar, R"({"const": 1})", "a");
  const int32_t two = add_json_schema(grammar, R"({"const": "x"})", "b");
  grammar.add(start, sequence(rule(one), literal(" and "), rule(two)));
  Machine machine(grammar);
  EXPECT_TRUE(accepts(machine, R"(1 and "x")"));
  EXPECT_FALSE(accepts(machine, R"("x" and 1)"));
}

// What a schema that is too large has added is given back.
TEST(Grammar, TruncatedHasRoomAgain) {
  Grammar grammar;
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(
        {
          for (int n = 0; n < 1'000; ++n) grammar.new_rule({literal(std::string(999, 'a'))});
        },
        UsageError);
    EXPECT_GT(grammar.rules().size(), 100U);
    grammar.truncate(0);
  }
}

TEST(JsonSchema, RefusesWhatItDoesNotApply) {
  const auto refused = [](const std::string& schema, const std::string& message) {
    expect_throw<DataError>(message, [&] { machine_of(schema); });
  };
  refused("{", "schema: ");
  refused("[]", "schema: expected a schema, which is an object, true or false, found []");
  refused(R"({"type": "string", "pattern": "a+"})",
          "schema: pattern: expected a keyword that is supported here, found \"pattern\"");
  refused(R"({"type": "number", "minimum": 1})", "schema: minimum: expected no bound of the type \"number\"");
  refused(R"({"type": ["integer", "number"], "maximum": 1})",
          "schema: maximum: expected no bound of the type");
  refused(R"({"minimum": 1})", "schema: minimum: expected a keyword that is supported here");
  for (const char* keyword : {"enum", "anyOf", "type", "$ref"})
    refused(concat(R"({")", keyword, R"(": null})"),
            concat("schema: ", keyword, ": expected a value, found null"));
  refused(R"({"enum": []})", "schema: enum: expected a value that the other keywords allow");
  refused(R"({"type": "integer", "const": "a"})",
          "schema: const: expected a value that the other keywords allow");
  refused(R"({"const": 3, "enum": [1, 2]})", "schema: enum: expected a value that the other keywords allow");
  refused(R"({"enum": [123456789012345678901234567890]})",
          "schema: enum[0]: expected a number of at most 16 digits");
  refused(std::string(300'000, ' ') + "true", "schema: expected at most 262144 bytes, found 300004");
  std::string chain = R"({"$ref": "#/$defs/a0", "$defs": {"a1000": true)";
  for (int i = 0; i < 1000; ++i) chain += concat(", \"a", i, "\": {\"$ref\": \"#/$defs/a", i + 1, "\"}");
  refused(chain + "}}", "expected a nesting depth of at most 300");
  refused(R"({"properties": {"a": {"type": "text"}}})",
          "schema: properties.a.type: expected types of object");
  refused(R"({"properties": {"a": {}}, "additionalProperties": {}})",
          "additionalProperties: expected true or false beside properties");
  refused(R"({"properties": {"a": {}}, "required": ["b"]})",
          "required: expected names of properties, without \"b\"");
  refused(R"({"$ref": "#/$defs/a"})", "$ref: expected a reference to a part of the document");
  refused(R"({"$ref": "http://example.com/a"})", "$ref: expected a reference within the document");
  refused(R"({"allOf": [{}, {}]})", "allOf: expected one schema");
  refused(R"({"anyOf": []})", "anyOf: expected at least one schema");
  refused(R"({"type": "string", "maxLength": 100000})",
          "maxLength: expected an integer from 0 to 10000, found 100000");
  refused(R"({"type": "array", "items": {"type": "string", "minLength": 9999}, "maxItems": -1})",
          "maxItems: expected an integer");
  refused(R"({"type": "array", "uniqueItems": true})", "uniqueItems: expected false or none");
  std::string many = R"({"properties": {"x0": {})";
  for (int i = 1; i < 900; ++i) many += concat(", \"x", i, "\": {}");
  refused(many + "}}", "expected at most 200000 symbols");
  // Without a text.
  for (const char* schema :
       {"false", R"({"$ref": "#"})", R"({"type": "integer", "minimum": 2, "maximum": 1})",
        R"({"type": "array", "minItems": 2, "maxItems": 1})",
        R"({"type": "array", "prefixItems": [true], "items": false, "minItems": 3})",
        R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})"}) {
    expect_throw<UsageError>("expected one with a text, found none", [&] { machine_of(schema); });
  }
}

}  // namespace
}  // namespace qkv::grammar
