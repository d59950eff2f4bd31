#pragma once
// Command line options of the fields of a struct of options (qkv/base/option_field.h).

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "apps/command.h"
#include "qkv/base/option_field.h"

namespace qkv::apps {

// Sets an option from a text that passed the checks of add_field_option().
template <class Value>
void set_from_text(std::string_view name, const std::string& text, Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    parse_field(name, text, words(value), value);
  } else if constexpr (std::is_same_v<Value, bool>) {
    parse_field(name, text, value);
  } else if constexpr (std::is_same_v<Value, std::chrono::milliseconds>) {
    value = std::chrono::milliseconds(static_cast<int64_t>(option::parsed<double>(text) * 1000));
  } else if constexpr (std::is_same_v<Value, uint16_t>) {
    value = static_cast<uint16_t>(option::parsed<int>(text));
  } else {
    value = option::parsed<Value>(text);
  }
}

// The fields that were given on the command line, as text. Others keep the values that they have.
class GivenFields {
 public:
  bool has(std::string_view name) const { return texts_.contains(name); }
  bool any() const { return !texts_.empty(); }
  void set(std::string_view name, const std::string& text) {
    texts_.insert_or_assign(std::string(name), text);
  }
  template <class Options>
  void apply(Options& options) const {
    Options::visit_fields(options, [&](const OptionField& field, auto& value) {
      if (const auto given = texts_.find(field.name); given != texts_.end())
        set_from_text(field.name, given->second, value);
    });
  }

 private:
  std::map<std::string, std::string, std::less<>> texts_;
};

inline constexpr const char* kModels = "the model's";  // defaults of generation_config.json

// Lines of at most 100 characters.
std::string wrapped(const std::string& text);

// Adds --name for a field, which calls `take` with its text: its help ends with the default, or, if `others`
// is given, with "(default: OTHERS)".
template <class Value>
Option* add_field_option(Command& command, const OptionField& field, const Value& value,
                         const std::function<void(const std::string&)>& take, std::string help,
                         const std::string& others = {}) {
  std::string name = concat("--", field.name), shown;
  std::ranges::replace(name, '_', '-');
  if constexpr (std::is_same_v<Value, bool>)
    return command.add_flag_function(
        name, [take](int64_t count) { take(count > 0 ? "true" : "false"); }, help);
  if (!others.empty()) help += concat(" (default: ", others, ")");
  Option* added = command.add_text(name, take, wrapped(help));
  if constexpr (std::is_enum_v<Value>) {
    std::vector<std::string> names;
    for (const auto& [word, meaning] : words(value)) names.emplace_back(word);
    added->type_name(join(names, "|"))->check(one_of(names));
    shown = field_text(words(value), value);
  } else {
    added->type_name(std::string(field.unit));
    if constexpr (is_number<Value>) {
      using Number = std::conditional_t<std::is_same_v<Value, uint16_t>, int, decltype(number_of(value))>;
      added->check([range = field.range](const std::string& text) -> std::string {
        std::string error = option::number_error<Number>(text);
        const auto number = option::parsed<double>(text);
        if ((error.empty() || option::is_whole(text)) && !range.contains(number))
          error = concat("expected ", range.text(), ", found ", text);
        return error;
      });
      shown = option::default_of(Number{number_of(value)});
    } else {
      if (field.unit == "FILE") added->check(option::not_empty("FILE"));
      shown = value;
    }
  }
  if (others.empty() && !shown.empty()) added->default_str(shown);
  return added;
}

// Adds the options of some groups. `given` must live as long as the command.
template <class Options>
void add_field_options(Command& command, GivenFields& given, std::initializer_list<std::string_view> groups,
                       const std::string& others = {}) {
  Options::visit_fields(Options(), [&](const OptionField& field, const auto& value) {
    if (std::ranges::find(groups, field.group) == groups.end()) return;
    const auto take = [&given, name = field.name](const std::string& text) { given.set(name, text); };
    add_field_option(command, field, value, take, std::string(field.help), others);
  });
}

// Adds options that set the members of `options`, whose values are the defaults.
template <class Options>
void add_field_options(Command& command, Options& options, std::string_view group = {}) {
  Options::visit_fields(options, [&]<class Value>(const OptionField& field, Value& value) {
    if (field.group != group) return;
    const auto take = [&value, name = field.name](const std::string& text) {
      set_from_text(name, text, value);
    };
    add_field_option(command, field, value, take, std::string(field.help));
  });
}

}  // namespace qkv::apps
