// The description of the routes at /openapi.json.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "qkv/pipelines/json.h"
#include "qkv/serve/protocols/schema.h"
#include "tests/serve/answers.h"
#include "tests/serve/folders.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;
using serve::Body;
using serve::Route;
using serve::Service;

json the_document() { return json::parse(serve::openapi_json(serve::all_routes())); }

// Expects a schema of OpenAPI 3.1, which is JSON Schema 2020-12, of the keywords that qkv uses.
void expect_schema(const json& schema, const json& components, const std::string& where) {
  static const std::set<std::string> kTypes{"string", "integer", "number", "boolean",
                                            "null",   "array",   "object"},
      kKeywords{"type",
                "properties",
                "required",
                "additionalProperties",
                "maxProperties",
                "items",
                "minItems",
                "maxItems",
                "minLength",
                "maxLength",
                "minimum",
                "maximum",
                "format",
                "exclusiveMinimum",
                "exclusiveMaximum",
                "anyOf",
                "enum",
                "const",
                "default",
                "description",
                "$ref"};
  ASSERT_TRUE(schema.is_object()) << where;
  for (const auto& [keyword, value] : schema.items()) {
    EXPECT_TRUE(kKeywords.contains(keyword)) << where << ": " << keyword;
    if (keyword == "$ref") {
      EXPECT_TRUE(components.contains(value.get<std::string>().substr(sizeof("#/components/schemas"))))
          << where << value;
    } else if (keyword == "type") {
      for (const json& type : value.is_array() ? value : json::array({value}))
        EXPECT_TRUE(kTypes.contains(type)) << where << type;
    } else if (keyword == "required") {
      for (const std::string name : value) EXPECT_TRUE(schema["properties"].contains(name)) << where << name;
    } else if (keyword == "properties" || keyword == "anyOf") {
      for (const auto& [name, part] : value.items()) expect_schema(part, components, where + "." + name);
    } else if (keyword == "items" || (keyword == "additionalProperties" && value.is_object())) {
      expect_schema(value, components, where + ".items");
    } else if (keyword == "default" && value.is_number()) {
      EXPECT_GE(value, schema.value("minimum", value)) << where;
      EXPECT_LE(value, schema.value("maximum", value)) << where;
    }
  }
}

TEST(OpenApi, HasEveryRouteInTheFormOfTheSpecification) {
  const json document = the_document(), components = document["components"]["schemas"];
  std::set<std::string> documented, existing;
  for (const auto& [name, schema] : components.items()) expect_schema(schema, components, name);
  for (const auto& [path, methods] : document["paths"].items()) {
    const size_t parameter = path.find('{');
    EXPECT_EQ(parameter != path.npos, methods.contains("parameters")) << path;
    for (const auto& [method, operation] : methods.items()) {
      if (method == "parameters") continue;
      documented.insert((method == "get" ? "GET " : "POST ") +
                        (parameter == path.npos ? path : path.substr(0, parameter) + "*"));
      EXPECT_TRUE(operation["responses"].contains("200")) << path;
      EXPECT_FALSE(operation["summary"].empty()) << path;
      for (const auto& [status, response] : operation["responses"].items()) {
        EXPECT_FALSE(response["description"].empty()) << path << status;
        for (const auto& [media, content] : response["content"].items())
          expect_schema(content["schema"], components, path + " " + status);
      }
      if (!operation.contains("requestBody")) continue;
      for (const auto& [media, content] : operation["requestBody"]["content"].items())
        expect_schema(content["schema"], components, path + " " + media);
    }
  }
  for (const Route& route : serve::all_routes())
    existing.insert(std::string(route.method) + " " + route.path);
  EXPECT_EQ(documented, existing);
}

// A handler that reads a field that its route does not declare answers 500.
TEST(OpenApi, HandlersReadTheFieldsThatTheirRoutesDeclare) {
  const Scratch scratch;
  serve::ServiceOptions options = serving_chat(scratch);
  for (const serve::ModelFolder& more :
       serving({"bert_texts", "bert_tokens", "bert_masked", "bert_spans", "marian"}).folders)
    options.folders.push_back(more);
  Service service(options);
  const json samples{{"q", "forty"},       {"source", "en"},
                     {"target", "de"},     {"prompt", "a"},
                     {"input", "a"},       {"inputs", "a"},
                     {"text", "a [MASK]"}, {"question", "a"},
                     {"query", "a"},       {"texts", "a"},
                     {"documents", {"a"}}, {"messages", json::array({{{"role", "user"}, {"content", "a"}}})}};
  for (const Route& route : serve::all_routes()) {
    if (route.request.empty() || route.body == Body::form) continue;
    json body;
    for (const serve::RequestField& field : route.request)
      body[field.name] = field.required ? samples.at(field.name) : json();
    std::string unread;
    if (route.path == std::string("/v1/score")) {  // of a language model; a translation model reads others
      body["text"] = "a";
      unread = "source, target";
    } else if (route.path == std::string("/")) {  // of a classifier, the first text encoder
      unread = "dimensions, normalize, prompt_name";
    }
    const serve::HttpResponse response = post(service, route.path, body);
    EXPECT_NE(response.status, 500) << route.path << response.body;
    EXPECT_EQ(response.body.find("unknown field") != std::string::npos, !unread.empty()) << route.path;
    for (const serve::RequestField& field : route.request) {
      EXPECT_EQ(response.body.find(concat("\\\"", field.name, "\\\"")) != std::string::npos,
                unread.find(field.name) != std::string::npos)
          << route.path << response.body;
    }
  }
}

TEST(OpenApi, OptionsHaveTheLimitsOfRequests) {
  const json paths = the_document()["paths"];
  const auto field = [&](const char* path, const char* name) {
    return paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"].value(
        name, json());
  };
  EXPECT_EQ(field("/v1/translate", "min_p"),
            json({{"type", {"number", "null"}},
                  {"minimum", 0.0},
                  {"maximum", 1.0},
                  {"default", 0},
                  {"description",
                   "Sample from tokens with at least this fraction of the highest probability, 0 to 1."}}));
  EXPECT_EQ(field("/v1/translate", "beam")["maximum"], 64);
  EXPECT_FALSE(field("/v1/translate", "beam").contains("default")) << "the model's";
  EXPECT_EQ(field("/v1/translate", "top_p")["exclusiveMinimum"], 0);
  EXPECT_EQ(field("/v1/translate", "seed")["maximum"], INT64_MAX);
  EXPECT_EQ(field("/v1/translate", "length_penalty_type")["enum"], json({"transformers", "gnmt", nullptr}));
  EXPECT_EQ(field("/v1/completions", "max_tokens")["default"], 16);
  EXPECT_EQ(field("/v1/completions", "temperature")["minimum"], 0);
  EXPECT_EQ(field("/v1/completions", "no_repeat_ngram")["maximum"], INT32_MAX);
  EXPECT_TRUE(field("/v1/completions", "beam").is_null());
}

TEST(OpenApi, SchemasAreWrittenInAShortNotation) {
  EXPECT_EQ(json(serve::schema_of(
                "{a: string(1..2) 'x', b?: [integer(0..)] | null, c: \"u\" | false, d: {*: Name}}")),
            json::parse(R"({"type": "object", "required": ["a", "c", "d"], "properties": {
              "a": {"type": "string", "minLength": 1, "maxLength": 2, "description": "x"},
              "b": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0}},
              "c": {"enum": ["u", false]},
              "d": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Name"}}}})"));
  for (const char* bad : {"", "{a string}", "[string", "string(1)", "string |", "string string"})
    EXPECT_THROW(serve::schema_of(bad), std::logic_error) << bad;
}

TEST(OpenApi, TranslationsFollowEveryOptionOfASearch) {
  Service service(serving({"marian"}));
  const pipelines::Translator translator(golden_folder("marian"));
  pipelines::TranslateOptions options = translator.default_options();
  options.search.no_repeat_ngram = 1;
  options.search.coverage_penalty = 0.5;
  options.search.length_penalty_type = search::LengthPenaltyType::gnmt;
  const std::vector<std::string> texts{"three hundred and forty", "twenty-one"};
  const json found = json_of(post(
      service, "/v1/translate",
      {{"text", texts}, {"no_repeat_ngram", 1}, {"coverage_penalty", 0.5}, {"length_penalty_type", "gnmt"}}));
  const auto expected = translator(texts, options);
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(found["translations"][i], json::parse(pipelines::to_json(expected[i])));
  expect_error(post(service, "/v1/translate", {{"text", "a"}, {"length_penalty_type", "x"}}), 400,
               {"length_penalty_type: expected one of transformers, gnmt, found 'x'"});
  expect_error(post(service, "/v1/translate", {{"text", "a"}, {"top_p", 0}}), 400,
               {"top_p: expected a number above 0 to 1, found 0"});
}

}  // namespace
