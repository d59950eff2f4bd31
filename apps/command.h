#pragma once
// How a command declares itself. Each is a function in a file of its own, commands/NAME.cc, and a line in
// commands.h. A command reads options, calls the library and prints; what a library user could want lives in
// the library.
//
// Results go to stdout, talk to stderr. Exit status: 0 done; 2 the command line is wrong (CLI11's errors,
// UsageError); 1 any other failure; 128 + the signal (SIGINT, SIGTERM, SIGHUP): stopped after saving.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/cli/suggest.h"
#include "qkv/base/error.h"

namespace qkv::apps {

// A command whose --help ends with an example.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& example);

namespace option {

template <class Value>
struct Held {  // what one argument becomes
  using Type = Value;
};
template <class Value>
struct Held<std::optional<Value>> : Held<Value> {};
template <class Value>
struct Held<std::vector<Value>> : Held<Value> {};

template <class Value>
inline constexpr bool is_vector = false;
template <class Value>
inline constexpr bool is_vector<std::vector<Value>> = true;

// Why `text` is no Value; empty: it is one.
template <class Value>
std::string number_error(const std::string& text) {
  Value value{};
  const bool wraps = std::is_unsigned_v<Value> && text.starts_with('-');
  if (!wraps && CLI::detail::lexical_cast(text, value)) return {};
  const char* expected = std::is_floating_point_v<Value> ? "a number"
                         : std::is_unsigned_v<Value>     ? "a whole number, 0 or more"
                                                         : "a whole number";
  return concat("expected ", expected, ", found '", text, "'");
}

// A check of a path.
inline auto not_empty(const std::string& type) {
  return [type](const std::string& text) -> std::string {
    return text.empty() ? concat("expected ", type, ", found an empty text") : "";
  };
}

}  // namespace option

// An option with a value, or an argument where `name` has no dashes. `value` must live as long as the
// command; its value is the default that --help shows. Where it holds none (std::optional, a list, an empty
// text), `help` says "(default: ...)", or the option is required. `type` is the value's kind or unit, such as
// FILE, TOKENS, N; what a 0 means is in `help`. An option with a list takes one value each time it is given.
template <class Value>
CLI::Option* add_option(CLI::App& command, const std::string& name, Value& value, const std::string& type,
                        const std::string& help) {
  using One = typename option::Held<Value>::Type;
  CLI::Option* added = command.add_option(name, value, help)->type_name(type);
  if constexpr (std::is_arithmetic_v<One>) {
    added->check([](const std::string& text) { return option::number_error<One>(text); });
  }
  if (type.find("DIR") != type.npos || type.find("FILE") != type.npos) added->check(option::not_empty(type));
  if constexpr (option::is_vector<Value>) {
    if (name.starts_with('-')) added->allow_extra_args(false);
  } else if constexpr (std::is_arithmetic_v<Value>) {
    added->capture_default_str();
  } else if constexpr (requires { value.empty(); }) {
    if (!value.empty()) added->capture_default_str();
  }
  return added;
}

// A name and what it stands for.
template <class Choice>
using Choices = std::vector<std::pair<std::string, Choice>>;

// An option that takes one of some names and puts what it stands for into `value`, under the rules of
// add_option().
template <class Value>
CLI::Option* add_choice(CLI::App& command, const std::string& name, Value& value,
                        const Choices<typename option::Held<Value>::Type>& choices, const std::string& help) {
  std::vector<std::string> names;
  for (const auto& [known, choice] : choices) names.push_back(known);
  const auto take = [name, &value, choices, names](const std::string& given) {
    for (const auto& [known, choice] : choices) {
      if (known != given) continue;
      value = choice;
      return;
    }
    throw CLI::ValidationError(name, expected_one_of(names, given));
  };
  CLI::Option* added = command.add_option_function<std::string>(name, take, help);
  added->type_name(CLI::detail::join(names, "|"));
  if constexpr (std::is_same_v<Value, typename option::Held<Value>::Type>) {
    for (const auto& [known, choice] : choices) {
      if (choice == value) added->default_str(known);
    }
  }
  return added;
}

// Names that stand for themselves.
inline Choices<std::string> names_of(const std::vector<std::string>& names) {
  Choices<std::string> choices;
  for (const std::string& name : names) choices.emplace_back(name, name);
  return choices;
}

// The values in a type such as "f32|bf16"; none of others, such as "N" and "DIR|FILE".
std::vector<std::string> choices_of(const std::string& type);

// A check of a text that must be one of these.
inline auto one_of(const std::vector<std::string>& names) {
  return [names](const std::string& text) -> std::string {
    return std::ranges::find(names, text) != names.end() ? "" : expected_one_of(names, text);
  };
}

// A check of a number that must be at least this.
template <class Value>
auto at_least(Value least) {
  return [least](const std::string& text) -> std::string {
    Value value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least) return {};
    return concat("expected at least ", least, ", found ", text);
  };
}

// A check of a number that must be between these, both included.
template <class Value>
auto in_range(Value least, Value most) {
  return [least, most](const std::string& text) -> std::string {
    Value value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    return concat("expected ", least, " to ", most, ", found ", text);
  };
}

// --threads, checked and put to use when it is given.
void add_threads_option(CLI::App& command);

// A callback ends with another exit status than 0 by throwing this.
struct ExitStatus {
  int value = 0;
};

}  // namespace qkv::apps
