#pragma once
// Settings that are listed once, for setting, listing and comparing. `visit_all(visit)` calls
//   visit("train.batch_tokens", options.batch_tokens, kDecidesWeights)
// for each. An enum's names are found by words(Enum), declared in the enum's namespace.

#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"
#include "qkv/train/task.h"

namespace qkv::train {

// The fields of a model's shape begin with it: "model.d_model".
inline constexpr std::string_view kModelFields = "model.";

// Whether a resumed run must agree in a setting.
inline constexpr bool kDecidesWeights = true, kBookkeeping = false;

// Sets the setting called `name` from text. Returns false if there is none; throws UsageError for an invalid
// value.
template <class VisitAll>
bool set_listed(const VisitAll& visit_all, std::string_view name, std::string_view text) {
  bool found = false;
  visit_all([&](std::string_view field, auto& member, bool /*decides*/) {
    if (field != name) return;
    if constexpr (std::is_enum_v<std::remove_reference_t<decltype(member)>>) {
      parse_field(field, text, words(member), member);
    } else {
      parse_field(field, text, member);
    }
    found = true;
  });
  return found;
}

template <class VisitAll>
std::vector<Field> listed(const VisitAll& visit_all) {
  std::vector<Field> result;
  visit_all([&](std::string_view field, const auto& member, bool decides) {
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(member)>>) {
      result.push_back({std::string(field), field_text(words(member), member), decides});
    } else {
      result.push_back({std::string(field), field_text(member), decides});
    }
  });
  return result;
}

// For validate(): throws UsageError for a setting whose value does not hold what is expected.
template <class Value>
void require_setting(std::string_view name, const Value& value, bool holds, std::string_view expected) {
  if (!holds) throw UsageError(concat(name, ": expected ", expected, ", found ", value));
}

// Calls action(), whose UsageErrors name fields of a model, and names them as settings: "model.d_model".
template <class Action>
auto with_model_names(const Action& action) {
  try {
    return action();
  } catch (const UsageError& error) {
    throw UsageError(concat(kModelFields, error.what()));
  }
}

// set_listed() for the fields of a model's shape or configuration, which has a set_field() of its own.
template <class Model>
bool set_model_field(Model& model, std::string_view name, std::string_view text) {
  if (!name.starts_with(kModelFields)) return false;
  return with_model_names([&] { return set_field(model, name.substr(kModelFields.size()), text); });
}

template <class Model>
void validate_model(const Model& model) {
  with_model_names([&] { model.validate(); });
}

}  // namespace qkv::train
