#pragma once
// How commands declare themselves. Each is a function in its own file, commands/*/NAME.cc, and a line in
// commands.h. A command reads options, calls the library and prints; functionality of interest to library
// users belongs in the library.
//
// Results go to stdout, messages to stderr. Exit status: 0 success; 2 invalid command line (CLI11's errors,
// UsageError); 1 any other failure; 128 + the signal (SIGINT, SIGTERM, SIGHUP): stopped after saving.

#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/cli/suggest.h"
#include "qkv/base/error.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace qkv::apps {

// An option or argument of a command. Functions return the option, for chaining.
//
// Option and Command are CLI11's, without its header, which takes seconds to compile.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option* required();
  Option* type_name(const std::string& type);
  Option* default_str(const std::string& text);  // as shown in --help
  Option* group(const std::string& name);        // a heading of --help
  // `error` returns the reason why a value is invalid; empty: it is valid.
  Option* check(std::function<std::string(const std::string&)> error);
  Option* needs(Option* other);
  Option* excludes(Option* other);
  size_t count() const;  // times given

 private:
  CLI::Option* option_;
};

// A command, and the owner of its options and subcommands.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  CLI::App& app() const { return *app_; }

  // The heading of the subcommands added next, in --help.
  void begin_heading(const std::string& heading) { heading_ = heading; }
  Command* add_subcommand(const std::string& name, const std::string& description);
  void footer(const std::string& text);  // of --help
  void callback(std::function<void()> run);
  // Runs before the callback, once the command line is known to be valid.
  void before_run(std::function<void()> prepare) { before_run_.push_back(std::move(prepare)); }
  void require_subcommand(size_t least, size_t most);
  // The name of the subcommand that was given; empty: none.
  std::string given_subcommand() const;

  // Sets `value` to true. It must live as long as the command, as for all options.
  Option* add_flag(const std::string& name, bool& value, const std::string& help);
  // "--on,!--off": calls `take` with a positive count for --on, and a negative one for --off.
  Option* add_flag_function(const std::string& name, std::function<void(int64_t)> take,
                            const std::string& help);
  // An option or argument with one value, and with one per occurrence.
  Option* add_text(const std::string& name, const std::function<void(const std::string&)>& take,
                   const std::string& help);
  Option* add_texts(const std::string& name, const std::function<void(const std::vector<std::string>&)>& take,
                    const std::string& help);
  bool has_option(const std::string& name) const;

 private:
  Option* added(CLI::Option* option);

  CLI::App* app_;
  std::deque<Option> options_;
  std::deque<Command> subcommands_;
  std::vector<std::function<void()>> before_run_;
  std::string heading_ = "Subcommands";
};

// Adds a command whose --help ends with an example.
Command* add_command(Command& parent, const std::string& name, const std::string& description,
                     const std::string& example);

// The names, separated by `separator`.
std::string join(const std::vector<std::string>& names, const std::string& separator);

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

// Parses a text; false: it is no such value.
bool convert(const std::string& text, int& value);
bool convert(const std::string& text, int64_t& value);
bool convert(const std::string& text, uint64_t& value);
bool convert(const std::string& text, float& value);
bool convert(const std::string& text, double& value);
inline bool convert(const std::string& text, std::string& value) { return value = text, true; }
inline bool convert(const std::string& text, std::filesystem::path& value) { return value = text, true; }

// A default in --help.
std::string text_of(int64_t value);
std::string text_of(uint64_t value);
std::string text_of(double value);
template <class Value>
std::string default_of(const Value& value) {
  if constexpr (std::is_floating_point_v<Value>) {
    return text_of(static_cast<double>(value));
  } else if constexpr (std::is_unsigned_v<Value>) {
    return text_of(static_cast<uint64_t>(value));
  } else if constexpr (std::is_integral_v<Value>) {
    return text_of(static_cast<int64_t>(value));
  } else if constexpr (std::is_same_v<Value, std::filesystem::path>) {
    return value.string();
  } else {
    return value;
  }
}

// Whether a text is a whole number, of any size.
bool is_whole(std::string_view text);

// Why `text` is not a valid Value; empty: it is.
template <class Value>
std::string number_error(const std::string& text) {
  Value value{};
  const bool wraps = std::is_unsigned_v<Value> && text.starts_with('-');
  if (!wraps && convert(text, value)) return {};
  if (std::is_integral_v<Value> && !wraps && is_whole(text)) {
    using Limits = std::numeric_limits<Value>;
    return text.starts_with('-') ? concat("expected at least ", Limits::min(), ", found ", text)
                                 : concat("expected at most ", Limits::max(), ", found ", text);
  }
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

// A value that passed the option's checks.
template <class Value>
Value parsed(const std::string& text) {
  Value value{};
  convert(text, value);
  return value;
}

[[noreturn]] void reject(const std::string& name, const std::string& message);

}  // namespace option

// An option with a value, or an argument if `name` has no dashes. `value` must live as long as the command;
// its initial value is the default shown in --help. If it has none (std::optional, a list, an empty text),
// `help` contains "(default: ...)", or the option is required. `type` is the value's kind or unit, such as
// FILE, TOKENS, N; `help` explains a 0. An option with a list takes one value per occurrence.
template <class Value>
Option* add_option(Command& command, const std::string& name, Value& value, const std::string& type,
                   const std::string& help) {
  using One = typename option::Held<Value>::Type;
  Option* added = nullptr;
  if constexpr (option::is_vector<Value>) {
    added = command.add_texts(
        name,
        [&value](const std::vector<std::string>& texts) {
          value.clear();
          for (const std::string& text : texts) value.push_back(option::parsed<One>(text));
        },
        help);
  } else {
    added = command.add_text(
        name, [&value](const std::string& text) { value = option::parsed<One>(text); }, help);
  }
  added->type_name(type);
  if constexpr (std::is_arithmetic_v<One>) {
    added->check([](const std::string& text) { return option::number_error<One>(text); });
  }
  if (type.find("DIR") != type.npos || type.find("FILE") != type.npos) added->check(option::not_empty(type));
  if constexpr (std::is_arithmetic_v<Value>) {
    added->default_str(option::default_of(value));
  } else if constexpr (std::is_same_v<Value, One>) {
    if (!value.empty()) added->default_str(option::default_of(value));
  }
  return added;
}

// A name and its value.
template <class Choice>
using Choices = std::vector<std::pair<std::string, Choice>>;

// An option that takes one of several names and stores its value, with the rules of add_option().
template <class Value>
Option* add_choice(Command& command, const std::string& name, Value& value,
                   const Choices<typename option::Held<Value>::Type>& choices, const std::string& help) {
  std::vector<std::string> names;
  for (const auto& [known, choice] : choices) names.push_back(known);
  const auto take = [name, &value, choices, names](const std::string& given) {
    for (const auto& [known, choice] : choices) {
      if (known != given) continue;
      value = choice;
      return;
    }
    option::reject(name, expected_one_of(names, given));
  };
  Option* added = command.add_text(name, take, help)->type_name(join(names, "|"));
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

// Checks that a number is at least this. The option's own type, checked before, may hold larger numbers.
template <class Value>
auto at_least(Value least) {
  return [least](const std::string& text) -> std::string {
    double value = 0;
    if (option::convert(text, value) && value >= static_cast<double>(least)) return {};
    return concat("expected at least ", least, ", found ", text);
  };
}

// Checks that a number is in this range, inclusive.
template <class Value>
auto in_range(Value least, Value most) {
  return [least, most](const std::string& text) -> std::string {
    double value = 0;
    if (option::convert(text, value) && value >= static_cast<double>(least) &&
        value <= static_cast<double>(most))
      return {};
    return concat("expected ", least, " to ", most, ", found ", text);
  };
}

// --threads, checked and applied when given.
void add_threads_option(Command& command);

// Thrown by a callback to exit with a status other than 0.
struct ExitStatus {
  int value = 0;
};

}  // namespace qkv::apps
