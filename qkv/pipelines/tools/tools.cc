#include "qkv/pipelines/tools/tools.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "qkv/base/error.h"
#include "qkv/grammar/json_schema.h"
#include "qkv/pipelines/tools/call_reader.h"

namespace qkv::pipelines {
namespace {

using grammar::Grammar;
using grammar::literal;
using grammar::rule;
using grammar::sequence;
using grammar::Symbols;

constexpr size_t kMostTools = 128, kMostName = 64;

int32_t arguments_of(Grammar& all, const Tool& tool) {
  const std::string name = concat("tools: ", tool.name, ": parameters");
  if (tool.parameters.empty()) {
    constexpr const char* kNone = R"({"type": "object", "properties": {}, "additionalProperties": false})";
    return grammar::add_json_schema(all, kNone, name);
  }
  try {
    return grammar::add_json_schema(all, tool.parameters, name);
  } catch (const DataError&) {
    if (tool.strict) throw;
  }
  return grammar::add_json_schema(all, R"({"type": "object"})", name);
}

Grammar calls_of(const CallFormat& format, const std::vector<Tool>& tools, bool parallel) {
  Grammar all;
  const int32_t start = all.new_rule(), call = all.new_rule(), rest = all.new_rule();
  all.add(start, sequence(literal(format.begin), rule(call), rule(rest)));
  for (const Tool& tool : tools) {
    const Symbols name = literal(tool.name), arguments{rule(arguments_of(all, tool))};
    const auto& [first, second] =
        format.arguments_first ? std::tie(arguments, name) : std::tie(name, arguments);
    all.add(call, sequence(first, literal(format.middle), second));
  }
  all.add(rest, literal(format.end));
  if (parallel && !format.between.empty())
    all.add(rest, sequence(literal(format.between), rule(call), rule(rest)));
  return all;
}

Tool tool_of(const JsonValue& given) {
  if (given["type"].string() != "function") given["type"].fail("\"function\"");
  given.members([](std::string_view key, const JsonValue& value) {
    if (key != "type" && key != "function") value.fail("none, as it is not supported");
  });
  const JsonValue function = given["function"];
  Tool tool{.name = function["name"].string()};
  if (tool.name.empty() || tool.name.size() > kMostName || !std::ranges::all_of(tool.name, is_of_a_name))
    function["name"].fail(concat("1 to ", kMostName, " letters, digits, _, . and -"));
  function.members([&](std::string_view key, const JsonValue& value) {
    if (key == "name" || value.is_null()) return;
    if (key == "description") {
      (void)value.string();
    } else if (key == "strict") {
      tool.strict = value.boolean();
    } else if (key == "parameters") {
      if (!value.is_object()) value.fail("a JSON schema of objects");
      if (const auto type = value.find("type"); type && type->text() != R"("object")")
        type->fail("\"object\"");
      const auto properties = value.find("properties");
      const bool none = properties && properties->is_object() && properties->size() == 0 &&
                        !value.has("additionalProperties");
      tool.parameters = none || value.size() == 0 ? "" : value.text();
    } else {
      value.fail("none, as it is not supported");
    }
  });
  return tool;
}

}  // namespace

std::vector<Tool> tools_of(const JsonValue& list) {
  if (list.size() > kMostTools) list.fail(concat("at most ", kMostTools, " tools"));
  std::vector<Tool> tools;
  for (const JsonValue& one : list.items()) {
    Tool tool = tool_of(one);
    if (std::ranges::any_of(tools, [&](const Tool& other) { return other.name == tool.name; }))
      one["function"]["name"].fail("a name that no other tool has");
    tools.push_back(std::move(tool));
  }
  return tools;
}

OutputGrammar tools_grammar(const CallFormat& format, const std::vector<Tool>& tools,
                            const ToolChoice& choice) {
  std::string key = concat("tools: ", choice.required, choice.parallel);
  for (const auto& [name, parameters, strict] : tools) key += concat(' ', name, strict, parameters);
  OutputGrammar made{
      .key = std::move(key),
      .make = [format, tools, parallel = choice.parallel] { return calls_of(format, tools, parallel); },
      .spelled = format.spelled};
  if (!choice.required) made.start = {.trigger = format.trigger, .first = format.whole_answer};
  return made;
}

}  // namespace qkv::pipelines
