#include "qkv/jinja/template.h"

#include <gtest/gtest.h>

#include <thread>

#include "qkv/base/error.h"

namespace {

using namespace qkv;
using jinja::Dict;
using jinja::Limits;
using jinja::Template;
using jinja::Value;

std::string rendered(std::string_view source, const Dict& context = {}, const Limits& limits = {}) {
  return Template(source, "chat_template").render(context, limits);
}

// The error of parsing or rendering.
std::string error_of(std::string_view source, const Dict& context = {}, const Limits& limits = {}) {
  try {
    const std::string text = rendered(source, context, limits);
    return "rendered '" + text.substr(0, 100) + "'";
  } catch (const DataError& error) {
    return error.what();
  }
}

Dict conversation() {
  Dict context;
  context.set(
      "messages",
      Value::of_json(parse_json(
          R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}])", "messages")));
  context.set("add_generation_prompt", true);
  return context;
}

constexpr std::string_view kTurns =
    "{%- for m in messages %}\n{{ '<' + m.role + '>' + m['content'] | trim }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

TEST(Template, RendersAConversation) {
  EXPECT_EQ(rendered(kTurns, conversation()), "<user>Hi\n<assistant>Yes?\n<assistant>");
}

TEST(Template, RendersTheSameFromSeveralThreads) {
  const Template turns(kTurns, "chat_template");
  const Dict context = conversation();
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string& text : texts) {
    threads.emplace_back([&turns, &context, &text] {
      for (int i = 0; i < 50; ++i) text = turns.render(context);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, "<user>Hi\n<assistant>Yes?\n<assistant>");
}

TEST(Template, TakesTheTimeOfTheCallersClock) {
  std::tm time{};
  time.tm_year = 99;
  time.tm_mday = 31;
  time.tm_mon = 11;
  EXPECT_EQ(Template("{{ strftime_now('%d %b %Y') }}", "t").render({}, {}, [&] { return time; }),
            "31 Dec 1999");
}

TEST(Template, KeepsTheOrderOfKeysAndTheKindsOfNumbers) {
  Dict context;
  context.set("x", Value::of_json(parse_json(R"({"z": 1, "a": 1.0, "m": [true, null, "é"]})", "x")));
  EXPECT_EQ(rendered("{{ x | tojson }} {{ x }}", context),
            R"({"z": 1, "a": 1.0, "m": [true, null, "é"]} {'z': 1, 'a': 1.0, 'm': [True, None, 'é']})");
}

TEST(Template, ErrorsNameTemplateAndLine) {
  EXPECT_EQ(error_of("a\n{{ raise_exception('Only users, please.') }}"),
            "chat_template: line 2: Only users, please.");
  EXPECT_EQ(error_of("\n\n{{ messages[0].role }}"), "chat_template: line 3: 'messages' is undefined");
  EXPECT_EQ(error_of("{% if x %}\n{% for a in b %}\n"),
            "chat_template: line 2: expected 'endfor' of the 'for' in line 2, found the end of the template");
  EXPECT_EQ(error_of("{{ (1 }}"), "chat_template: line 1: expected ')', found '}'");
  EXPECT_EQ(error_of("{% set x = [] %}\n{{ x.append(1) }}"),
            "chat_template: line 2: access to attribute 'append' of 'list' object is unsafe.");
}

TEST(Template, RefusesByNameWhatIsNotSupported) {
  for (const char* tag : {"include", "import", "extends", "block", "from", "autoescape", "do", "trans"}) {
    EXPECT_EQ(error_of(std::string("x\n{% if false %}{% ") + tag + " 'x' %}{% endif %}"),
              std::string("chat_template: line 2: the tag '") + tag + "' is not supported");
  }
  EXPECT_EQ(error_of("{% if false %}{{ 1 | urlize }}{% endif %}"),
            "chat_template: line 1: the filter 'urlize' is not supported");
  EXPECT_EQ(error_of("{{ 1 is prime }}"), "chat_template: line 1: the test 'prime' is not supported");
  EXPECT_EQ(error_of("{{ 'a'.encode('utf-8') }}"),
            "chat_template: line 1: the attribute 'encode' of a str is not supported");
  EXPECT_EQ(error_of("{{ lipsum() }}"), "chat_template: line 1: the function 'lipsum' is not supported");
  EXPECT_EQ(error_of("{{ [1] | map('string') }}"),
            "chat_template: line 1: printing a generator is not supported");
  EXPECT_EQ(error_of("{{ 9223372036854775807 + 1 }}"),
            "chat_template: line 1: expected an integer of at most 64 bits, found a larger result");
  EXPECT_EQ(error_of("{{ strftime_now('%99999d') }}"),
            "chat_template: line 1: strftime_now: the directive '%9' is not supported");
}

TEST(Template, RefusesBytesThatAreNotUtf8) {
  EXPECT_EQ(error_of("ab\xFF{{ 1 }}"), "chat_template: expected UTF-8, found another byte at position 2");
  EXPECT_NE(error_of("{{ '\\ud800' }}").find("hexadecimal digits of a character"), std::string::npos);
}

TEST(Limits, AreErrorsAndNeverHangs) {
  const Limits limits{.output_bytes = 100'000, .memory_bytes = 2'000'000, .steps = 200'000};
  const auto refused = [&](std::string_view source, std::string_view what) {
    const std::string error = error_of(source, conversation(), limits);
    EXPECT_NE(error.find(what), std::string::npos) << source << "\n" << error;
  };
  refused("{{ range(10 ** 9) }}", "at most 100000 values");
  refused("{{ 'a' * 10 ** 9 }}", "a text of at most 100000 bytes");
  refused("{{ [0] * 10 ** 9 }}", "at most");
  refused("{{ 'a' | center(10 ** 9) }}{{ '%999999999d' % 1 }}", "a text of at most");
  refused("{{ '%999999999d' % 1 }}", "a text of at most");
  refused("{{ '{:999999999}'.format(1) }}", "a text of at most");
  refused("{{ 'aaaaaaaaaa'.replace('', 'b' * 50000) }}", "a text of at most");
  refused("{{ 'a' | indent(10 ** 9) }}", "a text of at most");
  refused("{{ [1] | tojson(indent=10 ** 9) }}", "a text of at most");
  refused("{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
          "a text of at most");
  refused("{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
          "at most");
  // Nested shared lists, whose text would have 2^100 bytes.
  refused(
      "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ "
      "ns.s }}",
      "at most");
  refused(
      "{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}"
      "{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
      "200000 steps");
  refused("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}", "200000 steps");
  refused("{% for a in range(10000) %}0123456789abcdef{% endfor %}", "a text of at most 100000 bytes");
  refused(
      "{% set ns = namespace(l=[]) %}{% for i in range(300) %}{% set ns.l = ns.l + ['x' * 50000] %}{% endfor "
      "%}",
      "2000000 bytes of values");
  refused("{% set ns = namespace(l=1) %}{% for i in range(900) %}{% set ns.l = [ns.l] %}{% endfor %}",
          "200 nested containers");
  // Texts that wait for the end of their macros.
  refused("{% macro f() %}{% for i in range(90) %}" + std::string(1000, 'x') +
              "{% endfor %}{{ f() }}{% endmacro %}{{ f() }}",
          "2000000 bytes of values");
  refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "1000 nested evaluations");
  refused("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "1000 nested evaluations");
  refused("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", "nested evaluations");
}

TEST(Limits, CountWhatIsAliveOnly) {
  const Limits limits{.output_bytes = 100'000, .memory_bytes = 300'000};
  EXPECT_EQ(
      rendered("{% set ns = namespace(s='', n=0) %}{% for i in range(500) %}{% set ns.s = 'x' * 50000 %}"
               "{% set t %}{{ ns.s }}{% endset %}{% set ns.n = ns.n + t | length %}{% endfor %}{{ ns.n }}",
               {}, limits),
      "25000000");
}

TEST(Limits, BoundTheNestingOfTheSource) {
  const auto repeated = [](const std::string& part, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += part;
    return all;
  };
  for (const char* part : {"(", "[", "{1:", "not ", "-", "x[", "f(", "x if y else ", "a|default("}) {
    const std::string error = error_of("{{ " + repeated(part, 20'000));
    EXPECT_NE(error.find("at most"), std::string::npos) << part << error.substr(0, 200);
  }
  for (const char* part :
       {"{% if x %}", "{% for x in y %}", "{% macro f() %}", "{% set x %}", "{% filter upper %}"}) {
    const std::string error = error_of(repeated(part, 20'000));
    EXPECT_NE(error.find("at most 100 nested"), std::string::npos) << part << error.substr(0, 200);
  }
  for (const char* part :
       {" + 1", " ~ 1", ".x", "[0]", "()", " | upper", " is defined", " and 1", " == 1", ", 1"})
    error_of("{{ x" + repeated(part, 20'000) + " }}");  // no overflow of the stack
  EXPECT_EQ(rendered("{{ 1" + repeated(" + 1", 400) + " }}"), "401");
  EXPECT_EQ(rendered("{% if 0 %}" + repeated("{% elif 0 %}", 5000) + "{% else %}x{% endif %}"), "x");
}

TEST(Value, AKeyMustBeHashable) {
  Dict dict;
  EXPECT_THROW(dict.set(Value::list({}), 1), UsageError);
  dict.set(1, "a");
  dict.set(1.0, "b");
  dict.set(true, "c");
  EXPECT_EQ(dict.size(), 1u);
  EXPECT_EQ(dict.find(Value(1))->string(), "c");
}

}  // namespace
