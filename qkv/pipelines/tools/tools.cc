#include "qkv/pipelines/tools/tools.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/grammar/json_schema.h"
#include "qkv/grammar/machine.h"
#include "qkv/pipelines/tools/call_reader.h"

namespace qkv::pipelines {
namespace {

using grammar::Grammar;
using grammar::literal;
using grammar::rule;
using grammar::sequence;

constexpr size_t kMostTools = 128, kMostName = 64;
constexpr int kMostRefused = 16;        // schemas of a request that are tried in vain, as each takes time
constexpr size_t kMostBeforeNames = 8;  // tools whose arguments are told apart before their names come

// Throws DataError for a schema that is not supported, that no object fits, or that other values fit.
void require_objects(const std::string& schema, const std::string& name) {
  const auto refuse = [&name](const std::string& found) {
    throw DataError(concat(name, ": expected a JSON schema of objects, found ", found));
  };
  try {
    grammar::Machine machine(grammar::grammar_of_json_schema(schema, name));
    const grammar::Machine::State start = machine.start();
    for (int byte = 0; byte < 256; ++byte) {
      if (byte != '{' && machine.next(start, static_cast<uint8_t>(byte)) != grammar::Machine::kDead)
        refuse("one of other values too");
    }
  } catch (const UsageError& error) {
    refuse(error.what());
  }
}

class CallGrammar {
 public:
  CallGrammar(const CallFormat& format, const std::vector<Tool>& tools, bool parallel) {
    const int32_t start = all_.new_rule(), call = all_.new_rule(), rest = all_.new_rule();
    none_ = of_schema(R"({"type": "object", "properties": {}, "additionalProperties": false})");
    any_ = of_schema(R"({"type": "object"})");
    all_.add(start, sequence(literal(format.begin), rule(call), rule(rest)));
    all_.add(rest, literal(format.end));
    if (parallel && !format.between.empty())
      all_.add(rest, sequence(literal(format.between), rule(call), rule(rest)));
    if (format.arguments_first) {
      // Calls are alike until their names come, so that those of the same arguments are one alternative.
      std::map<int32_t, int32_t> names;  // rules of the names of tools with these arguments
      for (const Tool& tool : tools) {
        const int32_t arguments = tools.size() > kMostBeforeNames && !tool.strict ? any_ : arguments_of(tool);
        const auto [known, added] = names.try_emplace(arguments, -1);
        if (added) {
          known->second = all_.new_rule();
          all_.add(call, sequence(rule(arguments), literal(format.middle), rule(known->second)));
        }
        all_.add(known->second, literal(tool.name));
      }
    } else {
      for (const Tool& tool : tools)
        all_.add(call, sequence(literal(tool.name), literal(format.middle), rule(arguments_of(tool))));
    }
  }
  Grammar take() { return std::move(all_); }

 private:
  int32_t of_schema(const std::string& schema, const std::string& name = "tools") {
    return grammar::add_json_schema(all_, schema, name);
  }

  int32_t arguments_of(const Tool& tool) {
    if (tool.parameters.empty()) return none_;
    if (refused_ == kMostRefused && !tool.strict) return any_;
    const std::string name = concat("tools: ", tool.name, ": parameters");
    const auto before = static_cast<int32_t>(all_.rules().size());
    try {
      require_objects(tool.parameters, name);
      return of_schema(tool.parameters, name);
    } catch (const DataError&) {
      if (tool.strict) throw;
    }
    ++refused_;
    all_.truncate(before);
    return any_;
  }

  Grammar all_;
  int32_t none_ = 0, any_ = 0;  // {}, and any object
  int refused_ = 0;             // schemas
};

// Whether a schema of objects without properties says no more.
bool has_no_parameters(const JsonValue& schema) {
  bool others = false, has_properties = false;
  schema.members([&](std::string_view key, const JsonValue& value) {
    const bool is_empty = (value.is_object() || value.is_array()) && value.size() == 0;
    has_properties = has_properties || (key == "properties" && is_empty);
    others = others || !(key == "type" || key == "title" || key == "description" || key == "$schema" ||
                         ((key == "properties" || key == "required") && is_empty));
  });
  return !others && (has_properties || schema.size() == 0);
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
      if (!has_no_parameters(value)) tool.parameters = value.text();
    } else {
      value.fail("none, as it is not supported");
    }
  });
  return tool;
}

}  // namespace

std::vector<Tool> tools_of(const JsonValue& list) {
  if (!list.is_array()) list.fail("a list of tools");
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
      .make = [format, tools,
               parallel = choice.parallel] { return CallGrammar(format, tools, parallel).take(); },
      .spelled = format.spelled};
  if (!choice.required) made.start = {.trigger = format.trigger, .first = format.whole_answer};
  return made;
}

}  // namespace qkv::pipelines
