#include "qkv/serve/protocols/openai_fields.h"

#include <algorithm>
#include <string>
#include <utility>

namespace qkv::serve {
namespace {

std::vector<std::string> stops_of(Fields& fields) {
  if (!fields.find("stop")) return {};
  std::vector<std::string> stops = fields.texts("stop");
  std::erase(stops, "");
  if (stops.size() > 16)
    throw HttpError(400, concat("stop: expected at most 16 texts, found ", stops.size()));
  return stops;
}

// The schema of the answers; empty: any text.
std::string schema_of(const JsonValue& format) {
  const std::string type = format["type"].string();
  if (type == "text") return {};
  if (type == "json_object") return R"({"type":"object"})";
  if (type != "json_schema") format["type"].fail("\"text\", \"json_object\" or \"json_schema\"");
  const JsonValue schema = format["json_schema"];
  schema.members([](std::string_view name, const JsonValue& value) {
    if (name != "name" && name != "description" && name != "schema" && name != "strict")
      value.fail("none, as it is not supported");
  });
  return schema["schema"].text();
}

}  // namespace

std::vector<pipelines::Prompt> prompts_of(const JsonValue& value) {
  const auto ids_of = [](const JsonValue& list) {
    if (list.size() == 0) list.fail("at least one token id");
    std::vector<int32_t> ids;
    for (const JsonValue& item : list.items())
      ids.push_back(static_cast<int32_t>(item.integer(0, INT32_MAX)));
    return pipelines::Prompt{.ids = std::move(ids)};
  };
  if (value.is_string()) return {{.text = value.string()}};
  if (!value.is_array() || value.size() == 0)
    value.fail("a text, a list of texts, a list of token ids or a list of such lists");
  if (value.size() > Fields::kMaxTexts && !value.items().front().is_integer())
    value.fail(concat("at most ", Fields::kMaxTexts, " prompts"));
  const std::vector<JsonValue> items = value.items();
  if (items.front().is_integer()) return {ids_of(value)};
  std::vector<pipelines::Prompt> prompts;
  for (const JsonValue& item : items) {
    if (item.is_array()) {
      prompts.push_back(ids_of(item));
    } else {
      prompts.push_back({.text = item.string()});
    }
  }
  return prompts;
}

void require_neutral(Fields& fields, const char* name, double neutral) {
  if (const auto value = fields.find(name); value && value->number() != neutral) {
    throw HttpError(400, concat(name, ": expected ", neutral, " or none, as it is not supported, found ",
                                value->excerpt()));
  }
}

void require_absent(Fields& fields, const char* name) {
  const auto value = fields.find(name);
  const bool empty = !value || ((value->is_object() || value->is_array()) && value->size() == 0) ||
                     (value->is_string() && value->string().empty()) ||
                     (value->is_boolean() && !value->boolean());
  if (!empty)
    throw HttpError(400, concat(name, ": expected none, as it is not supported, found ", value->excerpt()));
}

RequestFields completion_fields(OptionsInRequest names, bool sampling_of_model) {
  const auto neutral = [](const char* name) {
    return RequestField{.name = name, .type = "number", .help = kUnsupported, .range = between(0, 0)};
  };
  RequestFields fields{
      model_field(),
      whole("n", between(1, 128), "", "1"),
      optional("stop", "string | [string](..16)"),
      flag("stream"),
      optional("stream_options", "{include_usage?: boolean | null, include_obfuscation?: false | null}"),
      neutral("presence_penalty"),
      neutral("frequency_penalty"),
      optional("logit_bias", "{}", kUnsupported),
      optional("response_format",
               R"({type: "text" | "json_object" | "json_schema", json_schema?: {name?: string | null,
  description?: string | null, schema: any, strict?: boolean | null} | null})"),
      optional("user", "any")};
  add_option_fields<search::SearchOptions>(fields, {""}, names, true);
  add_option_fields<search::Sampling>(fields, {"", search::Sampling::kSeed}, names, sampling_of_model);
  return fields;
}

void read_completion_fields(Fields& fields, OptionsInRequest names, search::Sampling sampling,
                            CompletionOptions& options) {
  search::SearchOptions& search = options.generate.search;
  search.beam = 1;
  search.nbest = 1;
  search.forced_eos = false;
  fields.read(search, names);
  fields.read(sampling, names);
  sampling.top_k = std::max(sampling.top_k, 0);  // -1, as vLLM's clients send: none
  sampling.seed = fields.seed();
  if (sampling.temperature > 0) search.sampling = sampling;
  require_neutral(fields, "presence_penalty", 0);
  require_neutral(fields, "frequency_penalty", 0);
  require_absent(fields, "logit_bias");
  fields.find("user");
  if (const auto format = fields.find("response_format")) options.generate.json_schema = schema_of(*format);
  options.choices = static_cast<size_t>(*fields.integer("n"));
  options.stream = fields.boolean("stream");
  options.stops = stops_of(fields);
  if (const auto stream_options = fields.find("stream_options")) {
    stream_options->members([&](std::string_view name, const JsonValue& value) {
      if (value.is_null()) return;
      const bool on = value.boolean();
      if (name == "include_usage") {
        options.stream_usage = on;
      } else if (name != "include_obfuscation" || on) {
        value.fail("none, as it is not supported");
      }
    });
  }
}

void require_min_tokens(const search::SearchOptions& search) {
  if (search.min_new_tokens <= search.max_new_tokens) return;
  throw HttpError(400, concat("min_tokens: expected at most max_tokens = ", search.max_new_tokens, ", found ",
                              search.min_new_tokens));
}

}  // namespace qkv::serve
