// The OpenAPI description of the routes.

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/schema.h"

namespace qkv::serve {
namespace {

constexpr auto kComponents = std::to_array<std::pair<const char*, const char*>>({
    {"ChatToken",
     R"({token: string, logprob: number, bytes: [integer(0..255)],
  top_logprobs: [{token: string, logprob: number, bytes: [integer(0..255)]}]})"},
    {"Error", "{error: {message: string, type: string, param?: string | null, code?: string | null}}"},
    {"LibreTranslateError", "{error: string}"},
    {"TeiError", "{error: string, error_type: string}"},
    {"Failed", "{error: string 'Why this text has no result.'}"},
    {"Labels", "[{label: string, probability: number}]"},
    {"Model",
     R"({id: string, object: "model", created: integer, owned_by: string,
  kind: "translation" | "language" | "text" | "image" | "image-text" | "speech", tasks: [string], mask_token?: string, images?: boolean,
  sentence_transformers?: boolean})"},
    {"Pair", "[string](1..2) 'A text, or a pair of texts.'"},
    {"Statistics",
     R"([{entropy: number(0..), largest: number(0..), first: number(0..), distance?: number(0..), special?: number(0..),
  across?: number(0..)}] 'Of each head, means over queries: bits, weights, tokens or patches.')"},
    {"Usage",
     R"({prompt_tokens: integer(0..), completion_tokens?: integer(0..), total_tokens: integer(0..),
  prompt_tokens_details?: {cached_tokens: integer(0..) 'Found in the prefix cache.'}})"},
});

constexpr auto kStatuses = std::to_array<std::pair<int, const char*>>({
    {400, "The request is malformed or asks for something unsupported."},
    {401, "An API key is missing or wrong."},
    {403, "A page of another origin asks."},
    {404, "No such model."},
    {408, "The body did not arrive in time."},
    {409, "A reload is under way."},
    {413, "The body is too large."},
    {429, "The queue is full."},
    {500, "A defect of the server, or a folder that cannot be opened again; the present models stay."},
    {503, "Out of memory, or stopping."},
    {504, "The deadline passed."},
});

ResponseJson json_schema(const RequestField& field) {
  if (field.type == "file")
    return {{"type", "string"}, {"format", "binary"}, {"description", field.help + "."}};
  ResponseJson schema = schema_of(field.type);
  const auto [least, most] = integer_limits(field.range);
  const bool whole = field.type == "integer";
  if (std::isfinite(field.range.least)) {
    schema[field.range.without_least ? "exclusiveMinimum" : "minimum"] =
        whole ? ResponseJson(least) : ResponseJson(field.range.least);
  }
  if (std::isfinite(field.range.most)) {
    schema[field.range.without_most ? "exclusiveMaximum" : "maximum"] =
        whole ? ResponseJson(most) : ResponseJson(field.range.most);
  }
  if (!field.otherwise.empty()) schema["default"] = ResponseJson::parse(field.otherwise);
  if (!field.help.empty()) schema["description"] = field.help + ".";
  return schema;
}

// A body of the fields and no others. In JSON, those that are not required may be null.
ResponseJson body_schema(const RequestFields& fields, bool json) {
  if (fields.empty()) return {{"type", "object"}};
  ResponseJson schema{{"type", "object"}};
  for (const RequestField& field : fields) {
    ResponseJson one = json_schema(field);
    schema["properties"][field.name] = field.required || !json ? std::move(one) : nullable(std::move(one));
    if (field.required) schema["required"].push_back(field.name);
  }
  schema["additionalProperties"] = false;
  return schema;
}

ResponseJson content(const char* media, ResponseJson schema) {
  return {{media, {{"schema", std::move(schema)}}}};
}

ResponseJson request_body(const Route& route) {
  ResponseJson body{{"required", true}};
  if (route.body == Body::form) {
    body["content"] = content("multipart/form-data", body_schema(route.request, false));
    return body;
  }
  body["content"] = content("application/json", body_schema(route.request, true));
  if (route.body == Body::json_or_form)
    body["content"].update(content("application/x-www-form-urlencoded", body_schema(route.request, false)));
  return body;
}

ResponseJson operation_of(const Route& route) {
  const bool has_body = std::string_view(route.method) == "POST" && route.body != Body::none;
  ResponseJson answers = content(route.media, schema_of(route.answer));
  if (route.streams)
    answers.update(content("text/event-stream", schema_of("{data: string 'JSON; the last is [DONE].'}")));
  ResponseJson responses{{"200", {{"description", "The result."}, {"content", std::move(answers)}}}};
  std::vector<int> codes =
      has_body ? std::vector{400, 404, 408, 413, 429, 500, 503, 504} : std::vector{400, 500};
  codes.insert(codes.end(), route.errors.begin(), route.errors.end());
  if (!route.open) codes.push_back(401);
  std::ranges::sort(codes);
  for (const int code : codes) {
    // These may come from the server itself.
    const bool own = code == 401 || code == 408 || code == 413;
    const std::string error = own && std::string_view(route.error) != "Error"
                                  ? concat("Error | ", route.error)
                                  : std::string(route.error);
    responses[std::to_string(code)] = {
        {"description", std::ranges::find(kStatuses, code, &std::pair<int, const char*>::first)->second},
        {"content", content("application/json", schema_of(error))}};
  }
  ResponseJson operation{{"tags", {route.tag}}, {"summary", route.summary}};
  if (has_body) operation["requestBody"] = request_body(route);
  operation["responses"] = std::move(responses);
  if (route.open) operation["security"] = ResponseJson::array();
  return operation;
}

}  // namespace

std::string openapi_json(const std::vector<Route>& routes) {
  ResponseJson paths, schemas, tags = ResponseJson::array();
  for (const Route& route : routes) {
    std::string path = route.path;
    if (path.ends_with('*')) {
      path.replace(path.size() - 1, 1, "{id}");
      paths[path]["parameters"] =
          ResponseJson::array({{{"name", "id"},
                                {"in", "path"},
                                {"required", true},
                                {"schema", {{"type", "string"}, {"pattern", "^[A-Za-z0-9_/-]+$"}}}}});
    }
    paths[path][std::string_view(route.method) == "GET" ? "get" : "post"] = operation_of(route);
    const ResponseJson tag{{"name", route.tag}};
    if (std::ranges::find(tags, tag) == tags.end()) tags.push_back(tag);
  }
  for (const auto& [name, notation] : kComponents) schemas[name] = schema_of(notation);
  return dump({{"openapi", "3.1.0"},
               {"info",
                {{"title", "qkv serve"},
                 {"version", QKV_VERSION},
                 {"description", "Transformers behind HTTP: docs/serving.md."}}},
               {"security", {{{"key", ResponseJson::array()}}, ResponseJson::object()}},
               {"tags", std::move(tags)},
               {"paths", std::move(paths)},
               {"components",
                {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}},
                 {"schemas", std::move(schemas)}}}});
}

}  // namespace qkv::serve
