// What PyPI's jinja2 renders, as recorded by tests/golden/chat_templates.py.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/json.h"
#include "qkv/jinja/template.h"

namespace {

using namespace qkv;

std::filesystem::path jinja_data(const std::string& name) {
  return std::filesystem::path(QKV_TEST_DATA) / "jinja" / name;
}
JsonValue jinja_golden(const std::string& name) {
  return parse_json(read_file(jinja_data("golden/" + name)), name);
}

// 2024-07-26 10:05:09
std::tm golden_time() {
  std::tm time{};
  time.tm_year = 124;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 10;
  time.tm_min = 5;
  time.tm_sec = 9;
  time.tm_wday = 5;
  time.tm_yday = 207;
  return time;
}

// Equal to the recorded text; an error where jinja2 has one.
void expect_golden(const std::string& source, const JsonValue& context, const JsonValue& expected) {
  std::string text;
  try {
    text = jinja::Template(source, "golden").render(jinja::Value::of_json(context).dict(), {}, golden_time);
  } catch (const DataError& error) {
    EXPECT_TRUE(expected.is_null()) << source << "\n" << error.what() << "\nexpected " << expected.excerpt();
    return;
  }
  ASSERT_FALSE(expected.is_null()) << source << "\nexpected an error, found " << text;
  EXPECT_EQ(text, expected.string()) << source;
}

TEST(Golden, TemplatesRenderAsWithJinja2) {
  const JsonValue golden = jinja_golden("templates.json");
  const std::vector<JsonValue> conversations = golden["conversations"].items();
  int templates = 0;
  golden["texts"].members([&](std::string_view name, const JsonValue& texts) {
    SCOPED_TRACE(std::string(name));
    const std::string source = read_file(jinja_data("templates/" + std::string(name) + ".jinja"));
    for (size_t i = 0; i < conversations.size(); ++i)
      expect_golden(source, conversations[i], texts.items()[i]);
    ++templates;
  });
  EXPECT_EQ(templates, 40);
}

// Where qkv refuses what jinja2 renders.
bool is_documented_difference(const std::string& source) {
  constexpr const char* kRefused[] = {"{{ 10 ** 25 }}", "{{ '%c' % 65 }}", "{{ lipsum(1) }}",
                                      "{% block x %}{% endblock %}"};
  return std::find(std::begin(kRefused), std::end(kRefused), source) != std::end(kRefused);
}

TEST(Golden, ExpressionsAndStatementsRenderAsWithJinja2) {
  const JsonValue golden = jinja_golden("expressions.json");
  size_t compared = 0;
  for (const JsonValue& one : golden["cases"].items()) {
    const std::string source = one.items()[0].string();
    if (is_documented_difference(source)) {
      EXPECT_THROW(jinja::Template(source, "golden").render(jinja::Value::of_json(golden["context"]).dict()),
                   DataError);
      continue;
    }
    expect_golden(source, golden["context"], one.items()[1]);
    ++compared;
  }
  EXPECT_GT(compared, 500u);
}

}  // namespace
