// The formats of calls that chat templates have.

#include "qkv/pipelines/tools/call_format.h"

#include <gtest/gtest.h>

#include "tests/support/chat_model.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using qkv::testing::Scratch;
using qkv::testing::write_chat_model;

const std::vector<int32_t> kEnds{0, 2};

struct FormatCase {
  const char* name;
  std::string source;
  std::vector<std::pair<std::string, std::string>> renamed;
  CallFormat expected;
};

std::string fixture(const char* name) {
  return read_file(std::filesystem::path(QKV_TEST_DATA "/jinja/templates") / concat(name, ".jinja"));
}

// As DeepSeek's: no content beside calls, and arguments that are a text.
constexpr const char* kTextArguments =
    R"({% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{% if m.role == 'user' %}<U>{{ m.content }}
{%- elif m.role == 'assistant' and m.content is none %}<A><calls>{% for c in m.tool_calls %}<call>{{ c.type }}<sep>{{ c.function.name }}
```json
{{ c.function.arguments }}
```</call>{% if not loop.last %}{{ '\n' }}{% endif %}{% endfor %}</calls><|im_end|>
{%- elif m.role == 'assistant' %}<A>{{ m.content }}<|im_end|>{% else %}<out>{{ m.content }}</out>{% endif %}{% endfor %})";

const std::vector<FormatCase>& format_cases() {
  static const std::vector<FormatCase> kCases{
      {"qwen25",
       fixture("qwen25_tools"),
       {},
       {.begin = "<tool_call>\n{\"name\": \"",
        .middle = "\", \"arguments\": ",
        .between = "}\n</tool_call>\n<tool_call>\n{\"name\": \"",
        .end = "}\n</tool_call>",
        .trigger = "<tool_call>"}},
      {"qwen3",
       fixture("qwen3_thinking"),
       {},
       {.begin = "<tool_call>\n{\"name\": \"",
        .middle = "\", \"arguments\": ",
        .between = "}\n</tool_call>\n<tool_call>\n{\"name\": \"",
        .end = "}\n</tool_call>",
        .trigger = "<tool_call>"}},
      {"hermes",
       fixture("hermes_tools"),
       {},
       {.begin = "<tool_call>\n{\"arguments\": ",
        .middle = ", \"name\": \"",
        .between = "\"}\n</tool_call>\n<tool_call>\n{\"arguments\": ",
        .end = "\"}\n</tool_call>",
        .arguments_first = true,
        .trigger = "<tool_call>"}},
      {"llama31",
       fixture("llama31_tools"),
       {{"<|im_end|>", "<|eot_id|>"}},
       {.begin = "{\"name\": \"",
        .middle = "\", \"parameters\": ",
        .end = "}",
        .trigger = "{\"name\": \"",
        .whole_answer = true}},
      {"mistral: without the ids",
       fixture("mistral_tools"),
       {{"<|endoftext|>", "</s>"}, {"<|im_start|>", "[TOOL_CALLS]"}},
       {.begin = "[TOOL_CALLS] [{\"name\": \"",
        .middle = "\", \"arguments\": ",
        .between = "}, {\"name\": \"",
        .end = "}]",
        .trigger = "[TOOL_CALLS]",
        .spelled = {1}}},
      {"arguments as text",
       kTextArguments,
       {},
       {.begin = "<calls><call>function<sep>",
        .middle = "\n```json\n",
        .between = "\n```</call>\n<call>function<sep>",
        .end = "\n```</call></calls>",
        .trigger = "<calls>",
        .arguments_are_text = true,
        .no_content = true}},
      {"described, but not shown",
       R"({% if tools %}Call {{ tools | tojson }} so: <tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call>{% endif %}
{%- for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %})",
       {},
       {.begin = "<tool_call>\n{\"name\": \"",
        .middle = "\", \"arguments\": ",
        .between = "}\n</tool_call>\n<tool_call>\n{\"name\": \"",
        .end = "}\n</tool_call>",
        .trigger = "<tool_call>",
        .in_content = true}}};
  return kCases;
}

TEST(CallFormats, AreFoundByRenderingCalls) {
  for (const auto& [name, source, renamed, expected] : format_cases()) {
    SCOPED_TRACE(name);
    const Scratch scratch;
    write_chat_model(scratch / "model", source, renamed);
    const text::Tokenizer tokenizer = text::Tokenizer::load(scratch / "model");
    const auto found = call_format({scratch / "model", tokenizer}, tokenizer, kEnds);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->begin, expected.begin);
    EXPECT_EQ(found->middle, expected.middle);
    EXPECT_EQ(found->between, expected.between);
    EXPECT_EQ(found->end, expected.end);
    EXPECT_EQ(found->trigger, expected.trigger);
    EXPECT_EQ(found->arguments_first, expected.arguments_first);
    EXPECT_EQ(found->whole_answer, expected.whole_answer);
    EXPECT_EQ(found->spelled, expected.spelled);
    EXPECT_EQ(found->arguments_are_text, expected.arguments_are_text);
    EXPECT_EQ(found->no_content, expected.no_content);
    EXPECT_EQ(found->in_content, expected.in_content);
  }
}

TEST(CallFormats, OfOtherTemplatesAreUnknown) {
  const std::vector<std::pair<const char*, const char*>> templates{
      {"chatml", "<|im_end|>"},       {"gemma3", "<end_of_turn>"}, {"granite", "<|end_of_text|>"},
      {"phi4_mini_tools", "<|end|>"}, {"glm4", "<|observation|>"}, {"gpt_oss", "<|call|>"},
      {"deepseek_v3", "<|im_end|>"}};
  for (const auto& [name, end] : templates) {
    SCOPED_TRACE(name);
    const Scratch scratch;
    write_chat_model(scratch / "model", fixture(name), {{"<|im_end|>", end}});
    const text::Tokenizer tokenizer = text::Tokenizer::load(scratch / "model");
    EXPECT_FALSE(call_format({scratch / "model", tokenizer}, tokenizer, kEnds));
  }
}

// Templates whose calls cannot be read back, or whose form is not theirs alone.
TEST(CallFormats, OfOtherFormsAreUnknown) {
  const auto source = [](const std::string& calls) {
    return R"({% if tools %}{{ tools | tojson }} <tool_call> "arguments"{% endif %}{% for m in messages %}<{{ m.role }}>
{%- if m.tool_calls %})" +
           calls + R"({% else %}{{ m.content }}<|im_end|>{% endif %}{% endfor %})";
  };
  const std::string values = "{{ c.function.arguments | tojson }}", name = "{{ c.function.name }}";
  const auto of_each = [](const std::string& call) {
    return "{% for c in m.tool_calls %}" + call + "{% endfor %}";
  };
  const auto found = [&](const std::string& calls) {
    const Scratch scratch;
    write_chat_model(scratch / "model", source(calls));
    const text::Tokenizer tokenizer = text::Tokenizer::load(scratch / "model");
    return call_format({scratch / "model", tokenizer}, tokenizer, kEnds);
  };
  EXPECT_TRUE(found(of_each("<call>" + name + " " + values + "</call>") + "<|im_end|>"));
  EXPECT_TRUE(found(of_each("<call>" + name + values) + "<|im_end|>"));
  for (const std::string& other :
       {of_each("<call>" + name + " " + values + "</call>"),                          // without an end
        of_each("I call " + name + ": <call>" + name + " " + values) + "<|im_end|>",  // a name twice
        of_each("<call>" + name + " " + values + values) + "<|im_end|>",
        of_each("<call>" + name + ".args=" + values) + "<|im_end|>",  // the name has no end
        of_each("<call>" + values + " " + name) + "<|im_end|>",
        of_each("<call>{{ c.id }} " + name + " " + values) + "<|im_end|>",
        of_each("<call>" + name +
                " {% for k, v in c.function.arguments.items() %}<arg>{{ k }}={{ v }}{% endfor %}") +
            "<|im_end|>",
        of_each("x" + name + " " + values + ";") + "<|im_end|>"}) {  // a trigger of one byte
    SCOPED_TRACE(other);
    EXPECT_FALSE(found(other));
  }
  const auto list = found("{% if m.tool_calls | length > 1 %}<list>{% endif %}" +
                          of_each("<call>" + name + " " + values + "</call>") + "<|im_end|>");
  ASSERT_TRUE(list);
  EXPECT_EQ(list->begin, "<call>");
  EXPECT_EQ(list->between, "") << "several calls have another form";
  const auto each = found(of_each("<call>" + name + " " + values + "</call><|im_end|>"));
  ASSERT_TRUE(each);
  EXPECT_EQ(each->between, "") << "an answer for each call";
  EXPECT_TRUE(each->spelled.empty());
}

// A call that a client sends back is in the prompt as the model wrote it.
TEST(CallFormats, MessagesHaveTheirCalls) {
  const std::vector<ToolCall> calls{{"qkvcall11", "f", R"({"x": "a \"b\""})"}, {"qkvcall12", "g", "{}"}};
  for (const auto& [name, source, renamed, expected] : format_cases()) {
    SCOPED_TRACE(name);
    const Scratch scratch;
    write_chat_model(scratch / "model", source, renamed);
    const text::Tokenizer tokenizer = text::Tokenizer::load(scratch / "model");
    const ChatTemplate chat(scratch / "model", tokenizer);
    const CallFormat format = call_format(chat, tokenizer, kEnds).value();
    const size_t count = format.between.empty() ? 1 : 2;
    const std::string prompt =
        chat.render(std::vector<ChatMessage>{{"user", "Hi"},
                                             message_with_calls(format, "", std::span(calls).first(count))},
                    {.add_generation_prompt = false});
    EXPECT_NE(prompt.find(format.begin), prompt.npos) << prompt;
    EXPECT_NE(prompt.find(R"({"x": "a \"b\""})"), prompt.npos) << prompt;
    if (count == 2) {
      EXPECT_NE(prompt.find(R"({})"), prompt.npos) << prompt;
    }
  }
}

TEST(CallFormats, CallsOfMessagesAreWritten) {
  const auto messages = [](const char* arguments) {
    return chat_messages(
        parse_json(concat(R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "So.",
        "reasoning_content": "r", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": )",
                          arguments, "}}]}]"),
                   "messages"));
  };
  const CallFormat plain{.begin = "<a>", .middle = "<b>", .end = "<c>"};
  for (const char* arguments : {R"({"x": 1})", R"("{\"x\": 1}")"}) {
    std::vector<ChatMessage> found = messages(arguments);
    write_calls(plain, found);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[1].content, "So.");
    ASSERT_EQ(found[1].fields.size(), 2u);
    EXPECT_EQ(found[1].fields[0].first, "tool_calls");
    EXPECT_EQ(found[1].fields[0].second.items()[0]["function"]["arguments"].text(), R"({"x":1})");
    EXPECT_EQ(found[1].fields[1].second.string(), "r");
  }
  CallFormat in_content = plain;
  in_content.in_content = true;
  std::vector<ChatMessage> found = messages(R"({"x": 1})");
  write_calls(in_content, found);
  EXPECT_EQ(found[1].content, R"(So.<a>f<b>{"x":1}<c>)");
  for (const auto& [arguments, message] :
       {std::pair("5", "arguments: expected an object or its JSON, found 5"),
        std::pair("null", "arguments: expected an object or its JSON, found null"),
        std::pair(R"("[1]")", "arguments: expected the JSON of an object")}) {
    std::vector<ChatMessage> bad = messages(arguments);
    testing::expect_throw<DataError>(message, [&] { write_calls(plain, bad); });
  }
}

}  // namespace
}  // namespace qkv::pipelines
