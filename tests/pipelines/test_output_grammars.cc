// Completions that a JSON schema describes.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/output_grammars.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using nlohmann::json;
using testing::expect_throw;

const TextGenerator& generator() {
  static const TextGenerator instance(QKV_TEST_DATA "/apps/golden/hub/SmolLM2-135M");
  return instance;
}

// Short values, so that a model of random weights ends.
constexpr const char* kSchema = R"({"type": "object", "properties": {
  "name": {"type": "string", "maxLength": 5},
  "kind": {"enum": ["red", "blue", null]},
  "numbers": {"type": "array", "items": {"type": "integer", "minimum": -5, "maximum": 5}, "minItems": 1, "maxItems": 3}},
  "required": ["name", "kind", "numbers"], "additionalProperties": false})";

GenerateOptions options_of(const std::string& schema) {
  GenerateOptions options = generator().default_options();
  options.search.max_new_tokens = 200;
  options.json_schema = schema;
  return options;
}

void expect_fits(const Generated& result) {
  ASSERT_EQ(result.error, "");
  for (const Completion& one : result.completions) {
    SCOPED_TRACE(one.text);
    EXPECT_TRUE(one.hypothesis.complete);
    const json value = json::parse(one.text);
    ASSERT_TRUE(value.is_object());
    EXPECT_EQ(value.size(), 3U);
    EXPECT_TRUE(value.at("name").is_string());
    EXPECT_TRUE(value.at("kind") == "red" || value.at("kind") == "blue" || value.at("kind").is_null());
    const json& numbers = value.at("numbers");
    EXPECT_TRUE(numbers.is_array() && !numbers.empty() && numbers.size() <= 3);
    for (const json& number : numbers) EXPECT_TRUE(number.is_number_integer() && number >= -5 && number <= 5);
  }
}

const std::vector<Prompt> kPrompts{
    {.text = "The captain said", .key = 1}, {.text = "A", .key = 2}, {.text = "Who is it?", .key = 3}};

TEST(JsonSchemas, HoldForEverySearch) {
  for (const int kind : {0, 1, 2}) {
    SCOPED_TRACE(kind == 0 ? "greedy" : kind == 1 ? "sampling" : "beam");
    GenerateOptions options = options_of(kSchema);
    if (kind == 1) options.search.sampling = search::Sampling{.temperature = 3};
    if (kind == 1) options.search.nbest = 4;
    if (kind == 2) options.search.beam = options.search.nbest = 3;
    const std::vector<Generated> together = generator()(kPrompts, options);
    for (size_t i = 0; i < kPrompts.size(); ++i) {
      expect_fits(together[i]);
      const Generated alone = generator()(std::span(&kPrompts[i], 1), options).at(0);
      ASSERT_EQ(alone.completions.size(), together[i].completions.size());
      EXPECT_EQ(alone.completions[0].text, together[i].completions[0].text);
      EXPECT_EQ(alone.completions[0].hypothesis.log_probability,
                together[i].completions[0].hypothesis.log_probability);
    }
  }
}

TEST(JsonSchemas, StreamTheirText) {
  const GenerateOptions options = options_of(kSchema);
  std::string streamed;
  Prompt prompt = kPrompts[0];
  prompt.on_text = [&](std::string_view text) { streamed += text; };
  const Generated result = generator()(std::span(&prompt, 1), options).at(0);
  expect_fits(result);
  EXPECT_EQ(streamed, result.completions[0].text);
}

TEST(JsonSchemas, ALimitCutsTheText) {
  GenerateOptions options = options_of(kSchema);
  options.search.max_new_tokens = 4;
  const Generated result = generator()(std::span(kPrompts).first(1), options).at(0);
  ASSERT_EQ(result.completions.size(), 1U);
  EXPECT_FALSE(result.completions[0].hypothesis.complete);
  EXPECT_TRUE(result.completions[0].text.starts_with("{"));
}

TEST(JsonSchemas, BadOnesAreRefusedByTheirPlace) {
  expect_throw<UsageError>("json_schema: properties.a.pattern: expected a keyword", [] {
    generator().prepare(kPrompts[0],
                        options_of(R"({"properties": {"a": {"type": "string", "pattern": "x"}}})"));
  });
  expect_throw<UsageError>("json_schema: expected JSON",
                           [] { generator().prepare(kPrompts[0], options_of("{")); });
  expect_throw<UsageError>("expected one with a text, found none",
                           [] { generator().prepare(kPrompts[0], options_of("false")); });
}

TEST(JsonSchemas, AreKept) {
  const LoadedLanguageModel& model = generator().model();
  const auto of = [&](const std::string& schema) {
    return model.grammars->constraint(json_schema_grammar(schema), model.tokenizer,
                                      model.model->config().vocabulary);
  };
  const auto first = of("true");
  EXPECT_EQ(of("true"), first);
  for (int i = 0; i < 7; ++i) EXPECT_NE(of(R"({"const": )" + std::to_string(i) + "}"), first);
  EXPECT_EQ(of("true"), first) << "used again, thus the newest";
  for (int i = 7; i < 15; ++i) of(R"({"const": )" + std::to_string(i) + "}");
  EXPECT_NE(of("true"), first) << "eight others were used since";
}

}  // namespace
}  // namespace qkv::pipelines
