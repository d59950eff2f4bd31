#include "qkv/serve/protocols/fields.h"

#include <random>

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

Fields::Fields(std::string_view body) : object_(parse_body(body)) {
  if (!object_.is_object())
    throw HttpError(400, concat("request: expected a JSON object, found ", object_.excerpt()));
}

std::optional<JsonValue> Fields::find(const std::string& name) {
  read_.insert(name);
  return object_.find(name);
}

std::string Fields::text(const std::string& name, const std::string& otherwise) {
  const auto value = find(name);
  return value ? value->string() : otherwise;
}

std::string Fields::required_text(const std::string& name) {
  const auto value = find(name);
  if (!value) throw HttpError(400, concat("request: expected a field \"", name, "\", found none"));
  return value->string();
}

bool Fields::boolean(const std::string& name, bool otherwise) {
  const auto value = find(name);
  return value ? value->boolean() : otherwise;
}

std::optional<int64_t> Fields::integer(const std::string& name, int64_t least, int64_t most) {
  const auto value = find(name);
  if (!value) return std::nullopt;
  return value->integer(least, most);
}

std::optional<double> Fields::number(const std::string& name, double least, double most) {
  const auto value = find(name);
  if (!value) return std::nullopt;
  const double number = value->number();
  if (!(number >= least && number <= most)) value->fail(concat("a number from ", least, " to ", most));
  return number;
}

std::vector<std::string> Fields::texts(const std::string& name, bool* is_list) {
  const auto value = find(name);
  if (!value) throw HttpError(400, concat("request: expected a field \"", name, "\", found none"));
  if (is_list) *is_list = value->is_array();
  if (value->is_string()) return {value->string()};
  if (!value->is_array()) value->fail("a text or a list of texts");
  if (value->size() > kMaxTexts) {
    throw HttpError(
        400, concat("request: ", name, ": expected at most ", kMaxTexts, " texts, found ", value->size()));
  }
  std::vector<std::string> result;
  for (const JsonValue& item : value->items()) result.push_back(item.string());
  return result;
}

uint64_t Fields::seed() {
  if (const auto given = integer("seed", 0, INT64_MAX)) return static_cast<uint64_t>(*given);
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
