#pragma once
// The fields of a request's JSON object. A route declares them (route.h), Fields reads what was declared, and
// openapi_json() describes it. Every field must be read: others are refused by name.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkv/base/json.h"
#include "qkv/base/option_field.h"
#include "qkv/serve/protocols/route.h"

namespace qkv::serve {

// Common fields, and kinds of fields.
RequestField model_field();
inline RequestField required(const char* name, const char* type, const char* help = "") {
  return {.name = name, .type = type, .help = help, .required = true};
}
inline RequestField optional(const char* name, const char* type, const char* help = "",
                             const char* otherwise = "") {
  return {.name = name, .type = type, .help = help, .otherwise = otherwise};
}
inline RequestField flag(const char* name, const char* help = "", const char* otherwise = "false") {
  return optional(name, "boolean", help, otherwise);
}
inline RequestField whole(const char* name, const Range& range, const char* help = "",
                          const char* otherwise = "") {
  return {.name = name, .type = "integer", .help = help, .otherwise = otherwise, .range = range};
}
inline constexpr const char* kTexts = "string | [string](..2048)";

// The whole numbers of a range.
std::pair<int64_t, int64_t> integer_limits(const Range& range);

// An option (qkv/base/option_field.h) whose field in requests has another name, range or default: those that
// are not empty count.
struct OptionInRequest {
  std::string_view option;
  RequestField field;
};
using OptionsInRequest = std::span<const OptionInRequest>;

inline Route get(const char* path, Handler handle, const char* summary, const char* answer,
                 const RouteTraits& traits = {}) {
  return {traits, "GET", path, handle, summary, {}, answer};
}
inline Route post(const char* path, Handler handle, const char* summary, RequestFields request,
                  std::string answer, const RouteTraits& traits = {}) {
  return {traits, "POST", path, handle, summary, std::move(request), std::move(answer)};
}

// The limits of options in requests, after `first`, which wins.
std::vector<OptionInRequest> request_limits(std::vector<OptionInRequest> first = {});

// The field of an option. `type`: in the notation of schema.h.
RequestField request_field(const OptionField& option, std::string type, std::string otherwise,
                           OptionsInRequest others);

// Adds the fields of the options in some groups. Defaults: those of a model, which are not listed, or those
// of the struct.
template <class Options>
void add_option_fields(RequestFields& fields, std::initializer_list<std::string_view> groups,
                       OptionsInRequest others, bool defaults_of_model) {
  Options::visit_fields(Options(), [&]<class Value>(const OptionField& option, const Value& value) {
    if (std::ranges::find(groups, option.group) == groups.end()) return;
    std::string type, otherwise;
    OptionField limited = option;
    if constexpr (std::is_enum_v<Value>) {
      for (const auto& [word, meaning] : words(value))
        type += concat(type.empty() ? "" : " | ", '"', word, '"');
      otherwise = quoted_json(field_text(words(value), value));
    } else if constexpr (std::is_same_v<Value, std::string>) {
      type = "string";
    } else {
      type = std::is_same_v<Value, bool> ? "boolean" : std::is_integral_v<Value> ? "integer" : "number";
      otherwise = field_text(value);
      if constexpr (std::is_same_v<Value, int>)
        limited.range.most = std::min<double>(option.range.most, INT32_MAX);
    }
    fields.push_back(request_field(limited, type, defaults_of_model ? "" : otherwise, others));
  });
}

class Fields {
 public:
  static constexpr size_t kMaxTexts = 2048;

  // Of the request's body, or of another text. Throws HttpError (400) for text that is not a JSON object.
  explicit Fields(const Exchange& exchange);
  Fields(const Exchange& exchange, std::string_view body);

  // A field; nothing if it is missing or null. Counts as read. The values' member functions throw DataError
  // naming the field. Throws std::logic_error for a field that the route does not declare, as all functions.
  std::optional<JsonValue> find(std::string_view name);
  // Throws HttpError (400) if it is missing.
  JsonValue required(std::string_view name);

  // These return the default of a field that is missing; empty, false or nothing if it has none.
  std::string text(std::string_view name);
  bool boolean(std::string_view name);
  std::optional<int64_t> integer(std::string_view name);
  std::optional<double> number(std::string_view name);
  // A text or a list of texts, at most kMaxTexts; required. `is_list`, if given: which of the two.
  std::vector<std::string> texts(std::string_view name, bool* is_list = nullptr);

  // Sets the options that the route declares and the request has. Returns whether there are any.
  template <class Options>
  bool read(Options& options, OptionsInRequest others);

  // The seed of random numbers; without the field, another one for each request, below 2^32.
  uint64_t seed();

  // Throws HttpError (400) for fields that have not been read, naming them.
  void done() const;

 private:
  const RequestField* declared(std::string_view name) const;
  const RequestField& field(std::string_view name) const;

  std::span<const RequestField> declared_;
  JsonValue object_;
  std::set<std::string, std::less<>> read_;
};

template <class Options>
bool Fields::read(Options& options, OptionsInRequest others) {
  bool any = false;
  Options::visit_fields(options, [&]<class Value>(const OptionField& option, Value& value) {
    const std::string name = request_field(option, "", "", others).name;
    const RequestField* const known = declared(name);
    if (known == nullptr) return;
    const bool given = find(name).has_value();
    any = any || given;
    if (!given && known->otherwise.empty()) return;
    if constexpr (std::is_enum_v<Value>) {
      parse_field(name, text(name), words(value), value);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      value = text(name);
    } else if constexpr (std::is_same_v<Value, bool>) {
      value = boolean(name);
    } else if constexpr (std::is_integral_v<Value>) {
      value = static_cast<Value>(*integer(name));
    } else {
      value = static_cast<Value>(*number(name));
    }
  });
  return any;
}

}  // namespace qkv::serve
