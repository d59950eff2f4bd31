// What clients are answered: the same results as the pipelines', in each protocol's form; routes, health and
// metrics.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "qkv/pipelines/json.h"
#include "tests/serve/answers.h"
#include "tests/serve/folders.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;
using serve::HttpResponse;
using serve::Service;

TEST(ServedTranslation, EqualsThePipelines) {
  Service service(serving({"marian"}));
  const pipelines::Translator translator(golden_folder("marian"));
  const std::vector<std::string> texts{"twenty-one", "forty", "", "three hundred"};
  const auto expected = translator(texts, translator.default_options());
  const json found = json_of(post(service, "/v1/translate", {{"model", "marian"}, {"text", texts}}));
  ASSERT_EQ(found["translations"].size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(found["translations"][i], json::parse(to_json(expected[i]))) << texts[i];
  // One text, with scores, alignment and the search's trace.
  pipelines::TranslateOptions options = translator.default_options();
  options.search.nbest = 2;
  options.alignment = true;
  const auto best = translator(std::vector<std::string>{"twenty-one"}, options);
  const json one = json_of(
      post(service, "/v1/translate",
           {{"text", "twenty-one"}, {"nbest", 2}, {"scores", true}, {"alignment", true}, {"trace", true}}));
  json translation = one["translations"][0];
  EXPECT_FALSE(translation["trace"]["steps"].empty());
  translation.erase("trace");
  EXPECT_EQ(translation, json::parse(to_json(best[0], {.scores = true, .alignment = true})));
}

TEST(ServedTranslation, StreamsTheWordsOfTheWholeAnswer) {
  Service service(serving({"marian"}));
  const json whole =
      json_of(post(service, "/v1/translate", {{"text", "three hundred forty-two"}, {"beam", 1}}));
  const HttpResponse streamed =
      post(service, "/v1/translate", {{"text", "three hundred forty-two"}, {"beam", 1}, {"stream", true}});
  EXPECT_EQ(streamed.content_type, "text/event-stream");
  const auto events = events_of(streamed.body);
  ASSERT_GE(events.size(), 3U);
  std::string text;
  for (size_t i = 0; i + 2 < events.size(); ++i) text += json::parse(events[i])["text"].get<std::string>();
  EXPECT_EQ(text, whole["translations"][0]["translation"].get<std::string>());
  EXPECT_EQ(json::parse(events[events.size() - 2])["translations"], whole["translations"]);
  EXPECT_EQ(events.back(), "[DONE]");
  expect_error(post(service, "/v1/translate", {{"text", "forty"}, {"beam", 2}, {"stream", true}}), 400,
               {"stream", "beam 1"});
}

TEST(ServedTranslation, KeepsErrorsInTheirPlace) {
  Service service(serving({"marian"}));
  std::string long_text;
  for (int i = 0; i < 400; ++i) long_text += "forty ";
  const json found = json_of(post(service, "/v1/translate", {{"text", {"forty", long_text}}}));
  EXPECT_TRUE(found["translations"][0].contains("translation"));
  EXPECT_TRUE(found["translations"][1].contains("error")) << found;
}

TEST(LibreTranslate, TakesJsonAndForms) {
  Service service(serving({"marian"}));
  const pipelines::Translator translator(golden_folder("marian"));
  const auto expected =
      translator(std::vector<std::string>{"twenty-one", "forty"}, translator.default_options());
  const json one =
      json_of(post(service, "/translate", {{"q", "twenty-one"}, {"source", "en"}, {"target", "de"}}));
  EXPECT_EQ(one["translatedText"], expected[0].text);
  EXPECT_FALSE(one.contains("alternatives"));
  const json several = json_of(post(service, "/translate",
                                    {{"q", {"twenty-one", "forty"}},
                                     {"source", "en"},
                                     {"target", "de"},
                                     {"format", "text"},
                                     {"alternatives", 1}}));
  EXPECT_EQ(several["translatedText"][1], expected[1].text);
  EXPECT_EQ(several["alternatives"][0].size(), 1U);
  const HttpResponse form =
      ask(service, {.path = "/translate",
                    .body = "q=twenty%2Done&source=en&target=de&api_key=",
                    .headers = {{"Content-Type", "application/x-www-form-urlencoded"}}});
  EXPECT_EQ(json_of(form)["translatedText"], expected[0].text);
  // curl says that JSON is a form.
  const auto as_form = [&](const std::string& body) {
    return ask(service, {.path = "/translate",
                         .body = body,
                         .headers = {{"Content-Type", "application/x-www-form-urlencoded"}}});
  };
  EXPECT_EQ(json_of(as_form(R"( {"q": "twenty-one", "source": "en", "target": "de"})"))["translatedText"],
            expected[0].text);
  expect_error(as_form("q=forty%ff&source=en&target=de"), 400, {"UTF-8"});
  const HttpResponse unknown =
      post(service, "/translate", {{"q", "a"}, {"source", "en"}, {"target", "de"}, {"colour", 1}});
  expect_error(unknown, 400, {"unknown field", "colour"});
  EXPECT_TRUE(json::parse(unknown.body)["error"].is_string());
  EXPECT_TRUE(json_of(ask(service, {.method = "GET", .path = "/languages"})).is_array());
}

// Of a model whose texts name their language, the request chooses it.
TEST(ServedTranslation, TakesLanguages) {
  Service service(serving({"nllb", "marian"}));
  const pipelines::Translator translator(golden_folder("nllb"));
  pipelines::TranslateOptions options = translator.default_options();
  options.languages = {.source_language = "deu_Latn", .target_language = "eng_Latn"};
  const std::string german = translator(std::vector<std::string>{"eins zwei"}, options)[0].text;
  options.languages = {.source_language = {}, .target_language = "deu_Latn"};
  const std::string english = translator(std::vector<std::string>{"eins zwei"}, options)[0].text;
  ASSERT_NE(german, english);
  const json request{{"model", "nllb"}, {"text", "eins zwei"}, {"target_language", "deu_Latn"}};
  EXPECT_EQ(json_of(post(service, "/v1/translate", request))["translations"][0]["translation"], english);
  json other = request;
  other["target_language"] = "xyz";
  expect_error(post(service, "/v1/translate", other), 400, {"target_language", "xyz"});
  other = request;
  other["model"] = "marian";
  expect_error(post(service, "/v1/translate", other), 400, {"target_language: expected none"});

  const auto libre = [&](const char* source, const char* target) {
    return post(service, "/translate", {{"q", "eins zwei"}, {"source", source}, {"target", target}});
  };
  EXPECT_EQ(json_of(libre("deu_Latn", "eng_Latn"))["translatedText"], german);
  EXPECT_EQ(json_of(libre("auto", "deu_Latn"))["translatedText"], english);
  EXPECT_EQ(libre("en", "de").status, 200) << "by the other model";
  const json languages = json_of(ask(service, {.method = "GET", .path = "/languages"}));
  const auto found =
      std::ranges::find_if(languages, [](const json& one) { return one["code"] == "deu_Latn"; });
  ASSERT_NE(found, languages.end()) << languages;
  EXPECT_EQ((*found)["targets"], json({"eng_Latn", "deu_Latn"}));
}

TEST(LibreTranslate, TranslatesLineByLine) {
  Service service(serving({"marian"}));
  const auto translation_of = [&](const json& q) {
    return json_of(
        post(service, "/translate", {{"q", q}, {"source", "en"}, {"target", "de"}, {"alternatives", 1}}));
  };
  const json first = translation_of("twenty-one"), second = translation_of("forty");
  const std::string one = first["translatedText"], two = second["translatedText"];
  const json both = translation_of("twenty-one\n\n  \nforty\r\n");
  EXPECT_EQ(both["translatedText"], one + "\n\n  \n" + two + "\r\n");
  EXPECT_EQ(both["alternatives"][0], first["alternatives"][0].get<std::string>() + "\n\n  \n" +
                                         second["alternatives"][0].get<std::string>() + "\r\n");
  const json several = translation_of({"forty\ntwenty-one", "", "forty"});
  EXPECT_EQ(several["translatedText"], json({two + "\n" + one, "", two}));
  std::string lines;
  for (int i = 0; i < 2049; ++i) lines += "a\n";
  expect_error(post(service, "/translate", {{"q", lines}, {"source", "en"}, {"target", "de"}}), 400,
               {"q: expected at most 2048 lines"});
}

TEST(ModelList, DescribesOneModel) {
  Service service(serving({"bert_masked", "marian"}));
  const json list = json_of(ask(service, {.method = "GET", .path = "/v1/models"}));
  EXPECT_EQ(json_of(ask(service, {.method = "GET", .path = "/v1/models/marian"})), list["data"][1]);
  expect_error(ask(service, {.method = "GET", .path = "/v1/models/gpt"}), 404,
               {"bert_masked, marian", "'gpt'"});
  expect_error(ask(service, {.method = "GET", .path = "/v1/models/"}), 404, {"path"});
  // Names as those of Hugging Face's hub.
  serve::ServiceOptions options;
  options.folders = {{"org/model", golden_folder("bert_masked")}};
  Service hub(options);
  for (const char* const path : {"/v1/models/org/model", "/v1/models/org%2Fmodel"})
    EXPECT_EQ(json_of(ask(hub, {.method = "GET", .path = path}))["id"], "org/model");
  expect_error(ask(hub, {.method = "GET", .path = "/v1/models/model"}), 404, {"org/model", "'model'"});
}

TEST(ModelList, NamesTasksAndMaskTokens) {
  Service service(serving({"bert_masked", "marian"}));
  const json list = json_of(ask(service, {.method = "GET", .path = "/v1/models"}));
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][0]["id"], "bert_masked");
  EXPECT_EQ(list["data"][0]["mask_token"], "[MASK]");
  EXPECT_EQ(list["data"][1]["tasks"], json({"translate", "score", "attention"}));
  EXPECT_FALSE(list["data"][1].contains("mask_token"));
  EXPECT_FALSE(list["data"][0].contains("sentence_transformers"));
}

TEST(Operation, HealthMetricsAndPage) {
  Service service(serving({"bert_texts"}));
  EXPECT_EQ(json_of(ask(service, {.method = "GET", .path = "/health"}))["status"], "ok");
  EXPECT_EQ(json_of(ask(service, {.method = "GET", .path = "/ready"}))["status"], "ready");
  json_of(post(service, "/v1/classify", {{"text", "a red dog"}}));
  const HttpResponse metrics = ask(service, {.method = "GET", .path = "/metrics"});
  EXPECT_NE(metrics.body.find("qkv_requests_total{route=\"/v1/classify\",status=\"200\"} 1\n"),
            std::string::npos)
      << metrics.body;
  EXPECT_NE(metrics.body.find("qkv_done_total{model=\"bert_texts\",worker=\"encode\"} 1\n"),
            std::string::npos);
  const HttpResponse page = ask(service, {.method = "GET", .path = "/"});
  EXPECT_TRUE(page.content_type.starts_with("text/html"));
  EXPECT_EQ(header_of(page, "Content-Security-Policy"),
            "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; frame-ancestors 'none'");
  EXPECT_EQ(ask(service, {.method = "GET", .path = "/record.js"}).content_type,
            "text/javascript; charset=utf-8");
  service.drain();
  EXPECT_EQ(ask(service, {.method = "GET", .path = "/ready"}).status, 503);
  EXPECT_EQ(ask(service, {.method = "GET", .path = "/health"}).status, 200);
}

TEST(Operation, RoutesKeysAndCors) {
  serve::ServiceOptions options = serving({"bert_texts"});
  options.keys = {"secret-1", "secret-2"};
  options.cors_origin = "https://example.org";
  Service service(options);
  const json body{{"text", "a"}};
  expect_error(post(service, "/v1/classify", body), 401, {"invalid_api_key"});
  const auto with_key = [&](const std::string& key) {
    return ask(
        service,
        {.path = "/v1/classify", .body = body.dump(), .headers = {{"Authorization", "Bearer " + key}}});
  };
  EXPECT_EQ(with_key("secret-2").status, 200);
  EXPECT_EQ(with_key("secret-3").status, 401);
  EXPECT_EQ(with_key("secret-").status, 401);
  EXPECT_EQ(
      ask(service,
          {.path = "/v1/classify", .body = body.dump(), .headers = {{"Authorization", "bearer  secret-2"}}})
          .status,
      200);
  EXPECT_EQ(header_of(with_key("secret-1"), "Access-Control-Allow-Origin"), "https://example.org");
  EXPECT_EQ(ask(service, {.method = "GET", .path = "/health"}).status, 200);
  const auto preflight = [&](const std::string& asked) {
    const HttpResponse response = ask(service, {.method = "OPTIONS",
                                                .path = "/v1/classify",
                                                .headers = {{"Access-Control-Request-Headers", asked}}});
    EXPECT_EQ(response.status, 204);
    return header_of(response, "Access-Control-Allow-Headers");
  };
  EXPECT_EQ(preflight("authorization, x-stainless-lang"), "authorization, x-stainless-lang");
  EXPECT_NE(preflight("").find("X-Timeout-Ms"), std::string::npos);
  EXPECT_EQ(preflight("a\r\nb: c"), preflight(""));
  EXPECT_NE(header_of(with_key("secret-1"), "Access-Control-Expose-Headers").find("X-Request-Id"),
            std::string::npos);
  expect_error(ask(service, {.method = "GET", .path = "/nowhere"}), 404, {"/nowhere"});
  const HttpResponse wrong = ask(service, {.method = "DELETE", .path = "/v1/classify"});
  expect_error(wrong, 405, {"POST"});
  EXPECT_EQ(header_of(wrong, "Allow"), "POST");
  const HttpResponse named =
      ask(service, {.method = "GET", .path = "/health", .headers = {{"X-Request-Id", "abc"}}});
  EXPECT_EQ(header_of(named, "X-Request-Id"), "abc");
  const HttpResponse unnamed =
      ask(service, {.method = "GET", .path = "/health", .headers = {{"X-Request-Id", "a b"}}});
  EXPECT_TRUE(header_of(unnamed, "X-Request-Id").starts_with("qkv-"));
}

}  // namespace
