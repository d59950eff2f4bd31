// Answers of a model that may call tools.

#include "qkv/pipelines/tools/tools.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/tools/call_reader.h"
#include "tests/grammar/accepts.h"
#include "tests/support/chat_model.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using grammar::accepts;
using nlohmann::json;
using qkv::testing::expect_throw;
using qkv::testing::Scratch;
using qkv::testing::write_chat_model;

// Short values, so that a model of random weights ends.
constexpr const char* kTwoTools = R"([
  {"type": "function", "function": {"name": "weather", "description": "d", "parameters": {"type": "object",
    "properties": {"city": {"type": "string", "maxLength": 4}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"]}}},
  {"type": "function", "function": {"name": "now"}}])";

struct ToolsFixture {
  explicit ToolsFixture(const char* name,
                        const std::vector<std::pair<std::string, std::string>>& renamed = {}) {
    write_chat_model(scratch / "model",
                     read_file(std::filesystem::path(QKV_TEST_DATA "/jinja/templates") / name), renamed);
    generator.emplace(scratch / "model");
    const LoadedLanguageModel& model = generator->model();
    format =
        call_format({model.folder, model.tokenizer}, model.tokenizer, std::vector<int32_t>{0, 2}).value();
  }
  GenerateOptions options(const ToolChoice& choice, int max_new_tokens = 120) const {
    GenerateOptions made = generator->default_options();
    made.search.max_new_tokens = max_new_tokens;
    made.grammar = std::make_shared<const OutputGrammar>(
        tools_grammar(format, tools_of(parse_json(kTwoTools, "tools")), choice));
    return made;
  }
  std::vector<ToolCall> calls_in(const std::string& answer, std::string* text = nullptr) const {
    CallReader reader(format, {"weather", "now"});
    std::vector<ToolCall> calls;
    std::string shown = reader.add(answer, calls);
    shown += reader.finish();
    if (text != nullptr) *text = shown;
    return calls;
  }
  void expect_fits(const ToolCall& call) const {
    const json arguments = json::parse(call.arguments);
    if (call.name == "now") {
      EXPECT_EQ(arguments, json::object());
    } else {
      ASSERT_EQ(call.name, "weather");
      EXPECT_EQ(arguments.size(), 2U) << arguments;
      EXPECT_TRUE(arguments.at("city").is_string());
      EXPECT_TRUE(arguments.at("unit") == "C" || arguments.at("unit") == "F") << arguments;
    }
  }

  Scratch scratch;
  std::optional<TextGenerator> generator;
  CallFormat format;
};

// Two formats: of plain text, and with a special token.
ToolsFixture qwen() { return ToolsFixture("qwen25_tools.jinja"); }
ToolsFixture mistral() {
  return ToolsFixture("mistral_tools.jinja", {{"<|endoftext|>", "</s>"}, {"<|im_start|>", "[TOOL_CALLS]"}});
}

TEST(Tools, RequiredCallsFitTheirSchemas) {
  for (const bool has_special : {false, true}) {
    const ToolsFixture fixture = has_special ? mistral() : qwen();
    SCOPED_TRACE(fixture.format.begin);
    GenerateOptions options = fixture.options({.required = true});
    options.search.sampling = search::Sampling{.temperature = 50};
    std::vector<Prompt> prompts;
    for (uint64_t key = 0; key < 12; ++key) prompts.push_back({.text = "The captain", .key = key});
    std::set<std::string> names;
    size_t most = 0;
    for (const Generated& result : (*fixture.generator)(prompts, options)) {
      ASSERT_EQ(result.error, "");
      const Completion& one = result.completions.at(0);
      SCOPED_TRACE(one.text);
      std::string text;
      const std::vector<ToolCall> calls = fixture.calls_in(one.text, &text);
      if (one.hypothesis.complete) {
        EXPECT_EQ(text, "");
        EXPECT_GE(calls.size(), 1U);
      }
      for (const ToolCall& call : calls) {
        fixture.expect_fits(call);
        names.insert(call.name);
      }
      most = std::max(most, calls.size());
    }
    EXPECT_EQ(names.size(), 2U);
    EXPECT_GT(most, 1U) << "several calls in an answer";
  }
}

TEST(Tools, AreCalledOnceWithoutParallelCalls) {
  const ToolsFixture fixture = qwen();
  GenerateOptions options = fixture.options({.required = true, .parallel = false});
  options.search.sampling = search::Sampling{.temperature = 50};
  for (uint64_t key = 0; key < 8; ++key) {
    const Prompt prompt{.text = "A", .key = key};
    const Completion one = (*fixture.generator)(std::span(&prompt, 1), options).at(0).completions.at(0);
    EXPECT_TRUE(one.hypothesis.complete);
    EXPECT_EQ(fixture.calls_in(one.text).size(), 1U) << one.text;
  }
}

// Forces the first tokens.
class Opening final : public search::Constraint {
 public:
  explicit Opening(std::vector<int32_t> ids) : ids_(std::move(ids)) {}
  void apply(const search::StepContext& context, search::NextTokens& next) const override {
    if (const auto at = static_cast<size_t>(context.new_tokens); at < ids_.size()) next.force(ids_[at]);
  }

 private:
  std::vector<int32_t> ids_;
};

TEST(Tools, TextsAreFreeUntilACallBegins) {
  for (const bool has_special : {false, true}) {
    const ToolsFixture fixture = has_special ? mistral() : qwen();
    SCOPED_TRACE(fixture.format.begin);
    const text::Tokenizer& tokenizer = fixture.generator->model().tokenizer;
    for (const bool calls : {false, true}) {
      GenerateOptions options = fixture.options({});
      options.search.sampling = search::Sampling{.temperature = 50};
      text::EncodeOptions plain;
      plain.special_tokens = false;
      const std::string opening = concat("It is ", calls ? fixture.format.trigger : "[<tool ");
      options.search.constraints.push_back(
          std::make_shared<const Opening>(tokenizer.encode(opening, plain).ids));
      std::string streamed;
      Prompt prompt{.text = "The captain", .key = 2};
      prompt.on_text = [&](std::string_view piece) { streamed += piece; };
      const Generated result = (*fixture.generator)(std::span(&prompt, 1), options).at(0);
      ASSERT_EQ(result.error, "");
      const std::string& answer = result.completions.at(0).text;
      EXPECT_EQ(streamed, answer);
      EXPECT_TRUE(answer.starts_with(opening)) << answer;
      std::string text;
      const std::vector<ToolCall> found = fixture.calls_in(answer, &text);
      EXPECT_EQ(found.empty(), !calls) << answer;
      if (calls) {
        EXPECT_EQ(text, "It is") << answer;
      } else {
        EXPECT_EQ(text, answer);
      }
      for (const ToolCall& call : found) fixture.expect_fits(call);
    }
  }
}

TEST(Tools, SchemasThatAreNotSupportedAllowAnyObjectUnlessStrict) {
  const ToolsFixture fixture = qwen();
  const auto options_of = [&](bool strict) {
    GenerateOptions options = fixture.options({});
    const std::vector<Tool> tools{
        {"f", R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}})", strict}};
    options.grammar = std::make_shared<const OutputGrammar>(tools_grammar(fixture.format, tools, {}));
    return options;
  };
  EXPECT_EQ(fixture.generator->prepare({.text = "A"}, options_of(false)).generated.error, "");
  expect_throw<UsageError>("tools: f: parameters: properties.a.pattern",
                           [&] { fixture.generator->prepare({.text = "A"}, options_of(true)); });
}

// The beginnings of texts that the grammar of one tool's arguments allows.
TEST(Tools, ArgumentsAreObjects) {
  const CallFormat format{.begin = "<", .middle = ":", .end = ">", .trigger = "<"};
  const auto first_bytes = [&](const std::string& parameters, bool strict = false) {
    grammar::Machine machine(tools_grammar(format, {{"f", parameters, strict}}, {}).make());
    grammar::Machine::State state = machine.start();
    for (const char byte : std::string("<f:")) state = machine.next(state, static_cast<uint8_t>(byte));
    std::string found;
    for (int byte = 0; byte < 256; ++byte) {
      if (machine.next(state, static_cast<uint8_t>(byte)) != grammar::Machine::kDead)
        found += static_cast<char>(byte);
    }
    return found;
  };
  for (const char* parameters :
       {R"({"description": "x"})", R"({"anyOf": [{"type": "object"}, {"type": "null"}]})",
        R"({"enum": [1, 2]})", R"({"$ref": "#"})",
        R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}})",
        R"({"properties": {"a": false}, "required": ["a"]})"}) {
    SCOPED_TRACE(parameters);
    EXPECT_EQ(first_bytes(parameters), "{");
    expect_throw<DataError>("tools: f: parameters: expected a JSON schema of objects",
                            [&] { first_bytes(parameters, true); });
  }
  EXPECT_EQ(first_bytes(R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}})", true), "{");
}

TEST(Tools, ArgumentsBeforeNamesAreThoseOfTheName) {
  const CallFormat format{
      .begin = "<", .middle = ":", .between = ";", .end = ">", .arguments_first = true, .trigger = "<"};
  const auto tool = [](const std::string& name, const std::string& key, bool strict) {
    return Tool{name, R"({"type": "object", "properties": {")" + key + R"(": {"type": "integer"}}})", strict};
  };
  grammar::Machine two(tools_grammar(format, {tool("f", "a", false), tool("g", "b", false)}, {}).make());
  EXPECT_TRUE(accepts(two, R"(<{"a":1}:f>)"));
  EXPECT_TRUE(accepts(two, R"(<{"b":1}:g;{"a":1}:f>)"));
  EXPECT_FALSE(accepts(two, R"(<{"a":1}:g>)"));
  // Of many tools, only those that are strict: all would be told apart at once.
  std::vector<Tool> many;
  for (int i = 0; i < 128; ++i) many.push_back(tool(concat("f", i), "a", i == 5));
  grammar::Machine machine(tools_grammar(format, many, {}).make());
  EXPECT_TRUE(accepts(machine, R"(<{"b":[1]}:f127>)"));
  EXPECT_TRUE(accepts(machine, R"(<{"a":1}:f5>)"));
  EXPECT_FALSE(accepts(machine, R"(<{"b":1}:f5>)"));
  EXPECT_LT(machine.work(), 5'000) << "no parse for each tool";
}

TEST(Tools, ThoseThatAreTooLargeTogetherAllowAnyObject) {
  const CallFormat format{.begin = "<", .middle = ":", .end = ">", .trigger = "<"};
  std::vector<Tool> tools;
  for (int i = 0; i < 128; ++i) {
    tools.push_back({concat("f", i),
                     R"({"type": "object", "properties": {"a": {"type": "string", "maxLength": 3000}}})"});
  }
  grammar::Machine machine(tools_grammar(format, tools, {}).make());
  EXPECT_TRUE(accepts(machine, R"(<f0:{"a": "x"}>)"));
  EXPECT_FALSE(accepts(machine, R"(<f0:{"b": "x"}>)"));
  EXPECT_TRUE(accepts(machine, R"(<f127:{"a": "x"}>)"));
  EXPECT_TRUE(accepts(machine, R"(<f127:{"b": [1]}>)"));
  tools.back().strict = true;
  expect_throw<DataError>("tools: f127: parameters: grammar: expected at most 200000 symbols",
                          [&] { tools_grammar(format, tools, {}).make(); });
}

TEST(Tools, EmptyPropertiesAreNoParameters) {
  const auto parameters = [](const std::string& schema) {
    return tools_of(parse_json(
        R"([{"type": "function", "function": {"name": "f", "parameters": )" + schema + "}}]", "tools"))[0]
        .parameters;
  };
  for (const char* none : {"null", "{}", R"({"type": "object", "properties": {}})",
                           R"({"properties": {}, "required": [], "title": "x"})"})
    EXPECT_EQ(parameters(none), "") << none;
  for (const char* some : {R"({"type":"object"})", R"({"properties":{},"required":["x"]})",
                           R"({"properties":{},"anyOf":[{"type":"object"}]})"})
    EXPECT_EQ(parameters(some), some);
}

TEST(Tools, BadOnesAreRefusedByTheirPlace) {
  const auto refused = [](const std::string& tool, const std::string& part) {
    expect_throw<DataError>(part, [&] { tools_of(parse_json("[" + tool + "]", "tools")); });
  };
  refused(R"({"type": "x", "function": {"name": "f"}})", "tools: [0].type");
  refused(R"({"type": "function"})", "function");
  refused(R"({"type": "function", "function": {"name": ""}})", "tools: [0].function.name: expected 1 to 64");
  refused(R"({"type": "function", "function": {"name": "a b"}})", "letters, digits");
  refused(R"({"type": "function", "function": {"name": "f", "parameters": 3}})", "parameters");
  refused(R"({"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}})",
          "\"object\"");
  refused(R"({"type": "function", "function": {"name": "f", "colour": 3}})", "colour");
  const std::string one = R"({"type": "function", "function": {"name": "f"}})";
  refused(one + "," + one, "no other tool has");
  std::string many = one;
  for (int i = 0; i < 128; ++i) many += "," + one;
  refused(many, "at most 128 tools");
}

}  // namespace
}  // namespace qkv::pipelines
