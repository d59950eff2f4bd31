#pragma once
// Settings that are listed once, for setting, listing and comparing: each struct of options has a function
//   list_settings(all, options), which calls all.add("train.seed", options.seed, kDecidesWeights) for each,
// with its range if it has one, and .flag({"N", "Seed of ..."}) if `qkv train` has an option for
// it.

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"
#include "qkv/base/option_field.h"
#include "qkv/train/task.h"

namespace qkv::train {

// The fields of a model's shape begin with it: "model.d_model".
inline constexpr std::string_view kModelFields = "model.";

// Whether a resumed run must agree in a setting.
inline constexpr bool kDecidesWeights = true, kBookkeeping = false;

// Calls action(), whose UsageErrors name fields of a model, and names them as settings: "model.d_model".
template <class Action>
auto with_model_names(const Action& action) {
  try {
    return action();
  } catch (const UsageError& error) {
    throw UsageError(concat(kModelFields, error.what()));
  }
}

// Throws UsageError for a setting whose value does not hold what is expected.
template <class Value>
void require_setting(std::string_view name, const Value& value, bool holds, std::string_view expected) {
  if (!holds) throw UsageError(concat(name, ": expected ", expected, ", found ", value));
}

// References to options, by name. It must not outlive them.
class Settings {
 public:
  struct Setting {
    std::string name;
    std::function<std::string()> text;
    std::function<void(std::string_view field, std::string_view text)> set;
    std::function<void()> check;  // of the range; empty: any value
    bool decides_weights;
    std::string names = {};  // of an enum's values: "f32|bf16"
    FieldFlag option = {};   // without help: none

    // Unit "|": the names of an enum. Bookkeeping of training may change when a run is resumed.
    void flag(FieldFlag one);
  };

  // An enum's names are found by words(Enum), declared in the enum's namespace, or it has functions
  // parse_field() and field_text() there.
  template <class Value>
  Setting& add(std::string name, Value& value, bool decides_weights) {
    if (std::ranges::find(all_, name, &Setting::name) != all_.end())
      throw UsageError(concat(name, ": two settings have this name"));
    Setting setting{
        .name = std::move(name), .text = {}, .set = {}, .check = {}, .decides_weights = decides_weights};
    if constexpr (requires { words(value); }) {
      for (const auto& [word, meaning] : words(value))
        setting.names += concat(setting.names.empty() ? "" : "|", word);
      setting.text = [&value] { return field_text(words(value), value); };
      setting.set = [&value](std::string_view field, std::string_view text) {
        parse_field(field, text, words(value), value);
      };
    } else {
      setting.text = [&value] { return field_text(value); };
      setting.set = [&value](std::string_view field, std::string_view text) {
        parse_field(field, text, value);
      };
    }
    return all_.emplace_back(std::move(setting));
  }
  template <class Value>
  Setting& add(const std::string& name, Value& value, bool decides_weights, const Range& range) {
    add(name, value, decides_weights);
    all_.back().check = [name, &value, range] { require_in_range(name, value, range); };
    return all_.back();
  }

  // The fields of a model's shape or configuration, which has fields() and set_field() of its own, but these.
  template <class Model>
  void add_model(Model& model, std::initializer_list<std::string_view> without = {}) {
    for (const auto& [name, value] : fields(std::as_const(model))) {
      if (std::ranges::find(without, std::string_view(name)) != without.end()) continue;
      all_.push_back({.name = concat(kModelFields, name),
                      .text = [value = value] { return value; },
                      .set =
                          [&model, name = name](std::string_view, std::string_view text) {
                            with_model_names([&] { set_field(model, name, text); });
                          },
                      .check = {},
                      .decides_weights = kDecidesWeights});
    }
  }

  // Gives a setting that was added an option of `qkv train`, or another one.
  void flag(std::string_view name, FieldFlag one);

  // Sets the setting called `name` from text. Returns false if there is none; throws UsageError for an
  // invalid value.
  bool set(std::string_view name, std::string_view text) const;
  // All settings as name and text.
  std::vector<Field> list() const;
  // The options of `qkv train`.
  std::vector<FieldFlag> flags() const;
  // Throws UsageError naming the first setting that is out of its range, what was expected and what was
  // found.
  void validate() const;

 private:
  std::vector<Setting> all_;
};

// Settings::validate() of a struct of options.
template <class Options>
void validate_settings(Options options) {
  Settings all;
  list_settings(all, options);
  all.validate();
}

template <class Model>
void validate_model(const Model& model) {
  with_model_names([&] { model.validate(); });
}

}  // namespace qkv::train
