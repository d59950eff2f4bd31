#include "qkv/serve/protocols/fields.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "qkv/serve/error.h"

namespace qkv::serve {
namespace {

JsonValue parse_body(std::string_view body) {
  try {
    return parse_json(body, "request");
  } catch (const DataError& error) {
    throw HttpError(400, error.what());
  }
}

}  // namespace

RequestField model_field() {
  return optional("model", "string", "Name of a model; none: the first that has the task");
}

std::pair<int64_t, int64_t> integer_limits(const Range& range) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  return {range.least < -kLimit ? INT64_MIN : static_cast<int64_t>(range.least),
          range.most >= kLimit ? INT64_MAX : static_cast<int64_t>(range.most)};
}

std::vector<OptionInRequest> request_limits(std::vector<OptionInRequest> first) {
  first.insert(
      first.end(),
      {{"beam", {.range = between(1, 64)}},
       {"nbest", {.range = between(1, 64)}},
       {"length_penalty", {.range = between(-100, 100)}},
       {"max_new_tokens", {.range = between(1, 1 << 20)}},
       {"min_new_tokens", {.range = between(0, 1 << 20)}},
       {"repetition_penalty", {.range = between(1e-3, 1e3)}},
       {"temperature",
        {.help = "Divides the logits; any of these fields asks for sampling", .range = between(1e-3, 100)}},
       {"top_k", {.help = "0 or -1: no limit", .range = between(-1, INT32_MAX)}},
       {"seed",
        {.help = "Default: another one for each request",
         .otherwise = "null",
         .range = between(0, static_cast<double>(INT64_MAX))}}});
  return first;
}

RequestField request_field(const OptionField& option, std::string type, std::string otherwise,
                           OptionsInRequest others) {
  RequestField result{.name = std::string(option.name),
                      .type = std::move(type),
                      .help = std::string(option.help),
                      .otherwise = std::move(otherwise),
                      .range = option.range};
  const auto found = std::ranges::find(others, option.name, &OptionInRequest::option);
  if (found == others.end()) return result;
  const RequestField& other = found->field;
  if (!other.name.empty()) result.name = other.name;
  if (!other.help.empty()) result.help = other.help;
  if (!other.otherwise.empty()) result.otherwise = other.otherwise == "null" ? "" : other.otherwise;
  if (std::isfinite(other.range.least)) result.range = other.range;
  return result;
}

Fields::Fields(const Exchange& exchange) : Fields(exchange, exchange.request().body) {}

Fields::Fields(const Exchange& exchange, std::string_view body)
    : declared_(exchange.route().request), object_(parse_body(body)) {
  if (!object_.is_object())
    throw HttpError(400, concat("request: expected a JSON object, found ", object_.excerpt()));
}

const RequestField* Fields::declared(std::string_view name) const {
  const auto found = std::ranges::find(declared_, name, &RequestField::name);
  return found == declared_.end() ? nullptr : &*found;
}

const RequestField& Fields::field(std::string_view name) const {
  const RequestField* const found = declared(name);
  if (found == nullptr) throw std::logic_error(concat("the route does not declare the field ", name));
  return *found;
}

std::optional<JsonValue> Fields::find(std::string_view name) {
  read_.insert(field(name).name);
  return object_.find(name);
}

JsonValue Fields::required(std::string_view name) {
  const auto value = find(name);
  if (!value) throw HttpError(400, concat("request: expected a field \"", name, "\", found none"));
  return *value;
}

std::string Fields::text(std::string_view name) {
  if (const auto value = find(name)) return value->string();
  const std::string& otherwise = field(name).otherwise;
  return otherwise.empty() ? otherwise : parse_json(otherwise, "default").string();
}

bool Fields::boolean(std::string_view name) {
  const auto value = find(name);
  return value ? value->boolean() : field(name).otherwise == "true";
}

std::optional<int64_t> Fields::integer(std::string_view name) {
  const auto [least, most] = integer_limits(field(name).range);
  if (const auto value = find(name)) return value->integer(least, most);
  const std::string& otherwise = field(name).otherwise;
  return otherwise.empty() ? std::nullopt : std::optional(std::stoll(otherwise));
}

std::optional<double> Fields::number(std::string_view name) {
  const RequestField& known = field(name);
  if (const auto value = find(name)) {
    const double number = value->number();
    if (!known.range.contains(number))
      value->fail(concat("a number ", known.range.without_least ? "" : "from ", known.range.text()));
    return number;
  }
  return known.otherwise.empty() ? std::nullopt : std::optional(std::stod(known.otherwise));
}

std::vector<std::string> Fields::texts(std::string_view name, bool* is_list) {
  const JsonValue value = required(name);
  if (is_list) *is_list = value.is_array();
  if (value.is_string()) return {value.string()};
  if (!value.is_array()) value.fail("a text or a list of texts");
  if (value.size() > kMaxTexts) {
    throw HttpError(
        400, concat("request: ", name, ": expected at most ", kMaxTexts, " texts, found ", value.size()));
  }
  std::vector<std::string> result;
  for (const JsonValue& item : value.items()) result.push_back(item.string());
  return result;
}

uint64_t Fields::seed() {
  if (const auto given = integer("seed")) return static_cast<uint64_t>(*given);
  return std::random_device()();
}

void Fields::done() const {
  std::string unknown;
  object_.members([&](std::string_view name, const JsonValue& /*value*/) {
    if (!read_.contains(name)) unknown += concat(unknown.empty() ? "" : ", ", quoted_json(name));
  });
  if (!unknown.empty()) throw HttpError(400, concat("request: unknown field ", unknown));
}

}  // namespace qkv::serve
