#pragma once
// Command line options of the fields of a struct of options (qkv/base/option_field.h).

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>

#include "apps/command.h"
#include "qkv/base/option_field.h"

namespace qkv::apps {

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
    Options::visit_fields(options, [&]<class Value>(const OptionField& field, Value& value) {
      const auto given = texts_.find(field.name);
      if (given == texts_.end()) return;
      if constexpr (std::is_enum_v<Value>) {
        parse_field(field.name, given->second, words(value), value);
      } else {
        value = option::parsed<Value>(given->second);
      }
    });
  }

 private:
  std::map<std::string, std::string, std::less<>> texts_;
};

inline constexpr const char* kModels = "the model's";  // defaults of generation_config.json

// Lines of at most 100 characters.
std::string wrapped(const std::string& text);

// Adds --name for a field: its help ends with the default, or, if `others` is given, with
// "(default: OTHERS)".
template <class Value>
Option* add_field_option(Command& command, GivenFields& given, const OptionField& field, const Value& value,
                         std::string help, const std::string& others) {
  std::string name = concat("--", field.name);
  std::ranges::replace(name, '_', '-');
  if (!others.empty()) help = wrapped(concat(help, " (default: ", others, ")"));
  Option* added = command.add_text(
      name, [&given, key = field.name](const std::string& text) { given.set(key, text); }, help);
  if constexpr (std::is_enum_v<Value>) {
    std::vector<std::string> names;
    for (const auto& [word, meaning] : words(value)) names.emplace_back(word);
    added->type_name(join(names, "|"))->check(one_of(names));
    if (others.empty()) added->default_str(field_text(words(value), value));
  } else {
    added->type_name(std::string(field.unit));
    added->check([range = field.range](const std::string& text) -> std::string {
      std::string error = option::number_error<Value>(text);
      const auto number = static_cast<double>(option::parsed<Value>(text));
      if (error.empty() && !range.contains(number))
        error = concat("expected ", range.text(), ", found ", text);
      return error;
    });
    if (others.empty()) added->default_str(option::default_of(value));
  }
  return added;
}

// Adds the options of some groups. `given` must live as long as the command.
template <class Options>
void add_field_options(Command& command, GivenFields& given, std::initializer_list<std::string_view> groups,
                       const std::string& others = {}) {
  Options::visit_fields(Options(), [&](const OptionField& field, const auto& value) {
    if (std::ranges::find(groups, field.group) != groups.end())
      add_field_option(command, given, field, value, std::string(field.help), others);
  });
}

}  // namespace qkv::apps
