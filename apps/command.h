#pragma once
// How commands declare themselves. Each is a function in its own file, commands/NAME.cc, and a line in
// commands.h. A command reads options, calls the library and prints; functionality of interest to library
// users belongs in the library.
//
// Results go to stdout, messages to stderr. Exit status: 0 success; 2 invalid command line (CLI11's errors,
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

// Adds a command whose --help ends with an example.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& example);

namespace option {

template <class Value>
struct Held {  // the parsed form of one argument
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

// Why `text` is not a valid Value; empty: it is.
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

// Checks that a path is not empty.
inline auto not_empty(const std::string& type) {
  return [type](const std::string& text) -> std::string {
    return text.empty() ? concat("expected ", type, ", found an empty text") : "";
  };
}

}  // namespace option

// An option with a value, or an argument if `name` has no dashes. `value` must live as long as the command;
// its initial value is the default shown in --help. If it has none (std::optional, a list, an empty text),
// `help` says "(default: ...)", or the option is required. `type` is the value's kind or unit, such as FILE,
// TOKENS, N; `help` explains a 0. An option with a list takes one value per occurrence.
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

// A name and its value.
template <class Choice>
using Choices = std::vector<std::pair<std::string, Choice>>;

// An option that takes one of several names and stores its value, with the rules of add_option().
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

// Names that are their own values.
inline Choices<std::string> names_of(const std::vector<std::string>& names) {
  Choices<std::string> choices;
  for (const std::string& name : names) choices.emplace_back(name, name);
  return choices;
}

// The values of a type such as "f32|bf16"; empty for other types, such as "N" and "DIR|FILE".
std::vector<std::string> choices_of(const std::string& type);

// Checks that a text is one of these.
inline auto one_of(const std::vector<std::string>& names) {
  return [names](const std::string& text) -> std::string {
    return std::ranges::find(names, text) != names.end() ? "" : expected_one_of(names, text);
  };
}

// Checks that a number is at least this.
template <class Value>
auto at_least(Value least) {
  return [least](const std::string& text) -> std::string {
    Value value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least) return {};
    return concat("expected at least ", least, ", found ", text);
  };
}

// Checks that a number is in this range, inclusive.
template <class Value>
auto in_range(Value least, Value most) {
  return [least, most](const std::string& text) -> std::string {
    Value value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    return concat("expected ", least, " to ", most, ", found ", text);
  };
}

// --threads, checked and applied when given.
void add_threads_option(CLI::App& command);

// Thrown by a callback to exit with a status other than 0.
struct ExitStatus {
  int value = 0;
};

}  // namespace qkv::apps
