// What clients are answered: the same results as the pipelines', in each protocol's form.

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "qkv/base/files.h"
#include "qkv/data/image.h"
#include "qkv/pipelines/json.h"
#include "tests/serve/answers.h"
#include "tests/serve/fake_reply.h"
#include "tests/serve/folders.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;
using serve::HttpResponse;
using serve::Service;
using serve::ServiceOptions;

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

TEST(Completions, EqualTheGeneratorsText) {
  Service service(serving({"llama"}));
  const pipelines::TextGenerator generator(golden_folder("llama"));
  pipelines::GenerateOptions options = generator.default_options();
  options.search.max_new_tokens = 12;
  const std::vector<pipelines::Prompt> prompts{{.text = "a red dog", .key = 1}, {.text = "one", .key = 2}};
  const auto greedy = generator(prompts, options);
  const json found = json_of(
      post(service, "/v1/completions",
           {{"model", "llama"}, {"prompt", {"a red dog", "one"}}, {"max_tokens", 12}, {"temperature", 0}}));
  ASSERT_EQ(found["choices"].size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(found["choices"][i]["text"], greedy[i].completions[0].text);
    EXPECT_EQ(found["choices"][i]["index"], i);
    EXPECT_EQ(found["choices"][i]["finish_reason"],
              greedy[i].completions[0].hypothesis.complete ? "stop" : "length");
  }
  EXPECT_EQ(found["usage"]["prompt_tokens"], greedy[0].prompt_tokens + greedy[1].prompt_tokens);
  // Sampling: the same seed and key give the same text.
  options.search.sampling = search::Sampling{.temperature = 0.9, .top_p = 0.95, .seed = 7};
  const auto sampled = generator(prompts, options);
  const json same = json_of(post(service, "/v1/completions",
                                 {{"prompt", {"a red dog", "one"}},
                                  {"max_tokens", 12},
                                  {"temperature", 0.9},
                                  {"top_p", 0.95},
                                  {"seed", 7}}));
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(same["choices"][i]["text"], sampled[i].completions[0].text);
}

TEST(Completions, StreamTheSameText) {
  Service service(serving({"llama"}));
  const json request{{"prompt", "a red dog"}, {"max_tokens", 20}, {"seed", 3}, {"n", 2},
                     {"logprobs", 1},         {"echo", false}};
  const json whole = json_of(post(service, "/v1/completions", request));
  json streaming = request;
  streaming["stream"] = true;
  streaming["stream_options"] = {{"include_usage", true}};
  const auto events = events_of(post(service, "/v1/completions", streaming).body);
  ASSERT_GE(events.size(), 4U);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(json::parse(events[events.size() - 2])["usage"], whole["usage"]);
  std::vector<std::string> texts(2), reasons(2);
  std::vector<json> tokens(2, json::array());
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    const json choice = json::parse(events[i])["choices"].at(0);
    const auto index = choice["index"].get<size_t>();
    texts.at(index) += choice["text"].get<std::string>();
    for (const json& token : choice["logprobs"]["token_logprobs"]) tokens[index].push_back(token);
    if (!choice["finish_reason"].is_null()) reasons[index] = choice["finish_reason"];
  }
  EXPECT_NE(texts[0], texts[1]);  // each choice has its own random numbers
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(texts[i], whole["choices"][i]["text"]);
    EXPECT_EQ(reasons[i], whole["choices"][i]["finish_reason"]);
    EXPECT_EQ(tokens[i], whole["choices"][i]["logprobs"]["token_logprobs"]);
    const json& logprobs = whole["choices"][i]["logprobs"];
    EXPECT_EQ(logprobs["tokens"].size(), tokens[i].size());
    for (size_t t = 0; t < tokens[i].size(); ++t) {
      const auto token = logprobs["tokens"][t].get<std::string>();
      EXPECT_EQ(texts[i].substr(logprobs["text_offset"][t], token.size()), token);
      EXPECT_EQ(logprobs["top_logprobs"][t][token], tokens[i][t]);
      EXPECT_LE(logprobs["top_logprobs"][t].size(), 2U);  // the most likely one, and the chosen one
    }
  }
}

TEST(Completions, EndBeforeAStopText) {
  Service service(serving({"llama"}));
  const json request{{"prompt", "a red dog"}, {"max_tokens", 20}, {"temperature", 0}};
  const auto text =
      json_of(post(service, "/v1/completions", request))["choices"][0]["text"].get<std::string>();
  ASSERT_GE(text.size(), 6U);
  const std::string stop = text.substr(text.size() / 2, 3);
  json stopped = request;
  stopped["stop"] = {"never in any text", stop};
  const json choice = json_of(post(service, "/v1/completions", stopped))["choices"][0];
  EXPECT_EQ(choice["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(choice["finish_reason"], "stop");
  stopped["stream"] = true;
  std::string streamed;
  for (const std::string& event : events_of(post(service, "/v1/completions", stopped).body))
    if (event != "[DONE]") streamed += json::parse(event)["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(streamed, choice["text"]);
}

TEST(Completions, TakeTokenIdsAndEcho) {
  Service service(serving({"llama"}));
  const json tokens = json_of(post(service, "/tokenize", {{"inputs", "a red dog"}}));
  json ids = json::array();
  for (const json& token : tokens[0]) ids.push_back(token["id"]);
  const json by_text =
      json_of(post(service, "/v1/completions", {{"prompt", "a red dog"}, {"temperature", 0}}));
  const json by_ids = json_of(post(service, "/v1/completions", {{"prompt", ids}, {"temperature", 0}}));
  EXPECT_EQ(by_ids["choices"][0]["text"], by_text["choices"][0]["text"]);
  const json echo = json_of(
      post(service, "/v1/completions", {{"prompt", "a red dog"}, {"temperature", 0}, {"echo", true}}));
  EXPECT_EQ(echo["choices"][0]["text"], "a red dog" + by_text["choices"][0]["text"].get<std::string>());
  expect_error(post(service, "/v1/completions", {{"prompt", {1, 99999999}}}), 400,
               {"prompt", "token ids below"});
}

TEST(Completions, RefuseWhatTheyDoNotDo) {
  Service service(serving({"llama", "bert_texts"}));
  const auto refused = [&](const json& more, const std::vector<std::string>& parts) {
    json request{{"prompt", "a"}, {"max_tokens", 2}};
    request.update(more);
    expect_error(post(service, "/v1/completions", request), 400, parts);
  };
  refused({{"presence_penalty", 0.5}}, {"presence_penalty"});
  refused({{"logit_bias", {{"5", 1}}}}, {"logit_bias"});
  refused({{"best_of", 4}}, {"best_of"});
  refused({{"max_tokens", -1}}, {"max_tokens"});
  refused({{"temperature", "hot"}}, {"temperature"});
  refused({{"top_p", 2}}, {"top_p", "0 to 1"});
  refused({{"colour", "red"}, {"size", 1}}, {"unknown field", "colour", "size"});
  refused({{"prompt", {{"a", "b"}}}}, {"prompt"});
  refused({{"prompt", json::array()}}, {"prompt"});
  refused({{"model", "bert_texts"}}, {"expected one for generate"});
  expect_error(post(service, "/v1/completions", {{"model", "llama"}}), 400, {"prompt"});
  expect_error(post(service, "/v1/completions", {{"prompt", "a"}, {"model", "gpt-4"}}), 404,
               {"gpt-4", "llama", "model_not_found"});
  expect_error(post(service, "/v1/chat/completions", {{"messages", json::array()}}), 400, {"chat templates"});
  expect_error(ask(service, {.path = "/v1/completions", .body = "{\"prompt\": \"a\""}), 400,
               {"request", "line 1"});
  expect_error(ask(service, {.path = "/v1/completions", .body = "[]"}), 400, {"JSON object"});
  expect_error(ask(service, {.path = "/v1/completions", .body = "{\"prompt\": \"\xff\"}"}), 400, {"request"});
  expect_error(ask(service, {.path = "/v1/completions", .body = std::string(100'000, '[')}), 400,
               {"request"});
}

TEST(Completions, RefuseBeforeTheyBegin) {
  Service service(serving({"llama"}));
  const auto refused = [&](json request, const std::vector<std::string>& parts) {
    request["stream"] = true;
    const HttpResponse response = post(service, "/v1/completions", request);
    EXPECT_NE(response.content_type, "text/event-stream");
    expect_error(response, 400, parts);
  };
  std::string words;
  for (int i = 0; i < 5000; ++i) words += "a ";
  refused({{"prompt", {"a", words}}}, {"prompt[1]", "tokens"});
  refused({{"prompt", std::vector<std::string>(20, "a")}, {"n", 128}}, {"n:", "2048 choices", "20 prompts"});
  refused({{"prompt", {{1}, json::array()}}}, {"prompt", "at least one token id"});
  refused({{"prompt", "a"}, {"max_tokens", 4}, {"min_tokens", 20}}, {"min_tokens", "max_tokens = 4"});
  refused({{"prompt", "a"}, {"stream_options", {{"include_usag", true}}}}, {"include_usag"});
}

// The last event of a choice does not wait for the other choices.
TEST(Completions, EndEachChoiceWhenItEnds) {
  const Scratch scratch;
  Service service(serving_long_texts(scratch));
  const std::vector<std::string> prompts{"a red dog", "one small house"};
  json request{{"prompt", prompts}, {"max_tokens", 40}, {"temperature", 0}, {"stream", true}};
  // A stop text that the first choice has and the second has not.
  const json whole = json_of(
      post(service, "/v1/completions", {{"prompt", prompts}, {"max_tokens", 40}, {"temperature", 0}}));
  const std::string first = whole["choices"][0]["text"], second = whole["choices"][1]["text"];
  std::string stop;
  for (size_t at = 0; at + 6 < first.size() && stop.empty(); ++at) {
    if (second.find(first.substr(at, 6)) == std::string::npos) stop = first.substr(at, 6);
  }
  if (stop.empty()) GTEST_FAIL() << "the texts do not differ: " << first << " | " << second;
  request["stop"] = stop;
  const std::vector<std::string> events = events_of(post(service, "/v1/completions", request).body);
  std::vector<size_t> end_of(2), ends(2);
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const json choice = json::parse(events[i])["choices"][0];
    const size_t index = choice["index"];
    EXPECT_EQ(ends[index], 0U) << "an event after the last";
    end_of[index] = i;
    if (!choice["finish_reason"].is_null()) ++ends[index];
  }
  EXPECT_EQ(ends, (std::vector<size_t>{1, 1}));
  EXPECT_LT(end_of[0] + 1, end_of[1]) << "the first was to end while the second went on";
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(Completions, CountAStreamThatFailsByItsError) {
  const Scratch scratch;
  Service service(serving_long_texts(scratch));
  const auto reply = start(
      service,
      {.path = "/v1/completions",
       .body = json{{"prompt", "a"}, {"max_tokens", 3900}, {"min_tokens", 3900}, {"stream", true}}.dump(),
       .headers = {{"X-Timeout-Ms", "300"}}});
  const HttpResponse response = reply->wait();
  EXPECT_EQ(response.status, 200) << "it had begun";
  EXPECT_NE(response.body.find("deadline_exceeded"), std::string::npos);
  EXPECT_EQ(reply->failed(), 504);
  const HttpResponse metrics = ask(service, {.method = "GET", .path = "/metrics"});
  EXPECT_NE(metrics.body.find("qkv_requests_total{route=\"/v1/completions\",status=\"504\"} 1\n"),
            std::string::npos);
}

TEST(ModelList, DescribesOneModel) {
  Service service(serving({"bert_masked", "marian"}));
  const json list = json_of(ask(service, {.method = "GET", .path = "/v1/models"}));
  EXPECT_EQ(json_of(ask(service, {.method = "GET", .path = "/v1/models/marian"})), list["data"][1]);
  expect_error(ask(service, {.method = "GET", .path = "/v1/models/gpt"}), 404,
               {"bert_masked, marian", "'gpt'"});
  expect_error(ask(service, {.method = "GET", .path = "/v1/models/"}), 404, {"path"});
  expect_error(ask(service, {.method = "GET", .path = "/v1/models/a/b"}), 404, {"path"});
}

TEST(ModelList, NamesTasksAndMaskTokens) {
  Service service(serving({"bert_masked", "marian"}));
  const json list = json_of(ask(service, {.method = "GET", .path = "/v1/models"}));
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][0]["id"], "bert_masked");
  EXPECT_EQ(list["data"][0]["mask_token"], "[MASK]");
  EXPECT_EQ(list["data"][1]["tasks"], json({"translate", "score", "attention"}));
  EXPECT_FALSE(list["data"][1].contains("mask_token"));
}

TEST(Embeddings, EqualThePipelines) {
  Service service(serving({"bert_texts"}));
  const pipelines::TextEmbedder embedder(golden_folder("bert_texts"));
  const std::vector<std::string> texts{"a red dog", "one small house", "a"};
  const auto expected = embedder(texts, embedder.default_options());
  const json found = json_of(post(service, "/v1/embeddings", {{"model", "bert_texts"}, {"input", texts}}));
  const json coded =
      json_of(post(service, "/v1/embeddings", {{"input", texts}, {"encoding_format", "base64"}}));
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(found["data"][i]["embedding"].get<std::vector<float>>(), expected[i].values);
    const auto base64 = coded["data"][i]["embedding"].get<std::string>();
    EXPECT_EQ(base64.size(), (expected[i].values.size() * 4 + 2) / 3 * 4);
  }
  // "AAAAAA==" is 0.0f: decode the first three bytes of the first value by hand.
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto base64 = coded["data"][0]["embedding"].get<std::string>();
  uint32_t bits = 0;
  for (size_t k = 0; k < 4; ++k) bits = bits << 6 | static_cast<uint32_t>(kDigits.find(base64[k]));
  uint32_t value = 0;
  std::memcpy(&value, expected[0].values.data(), sizeof value);
  EXPECT_EQ(bits, (value & 0xff) << 16 | (value >> 8 & 0xff) << 8 | (value >> 16 & 0xff));
  expect_error(post(service, "/v1/embeddings", {{"input", "a"}, {"dimensions", 7}}), 400, {"dimensions"});
  expect_error(post(service, "/v1/embeddings", {{"input", "a"}, {"encoding_format", "hex"}}), 400,
               {"encoding_format"});
  expect_error(post(service, "/v1/embeddings", {{"input", json::array()}}), 400, {"input"});
}

TEST(Embeddings, TakeTokenIds) {
  Service service(serving({"bert_texts"}));
  const pipelines::TextEmbedder embedder(golden_folder("bert_texts"));
  std::vector<std::vector<int32_t>> ids;
  for (const char* text : {"a red dog", "one small house"})
    ids.push_back(embedder.tokenizer().encode(text).ids);
  const auto expected =
      embedder(std::vector<std::string>{"a red dog", "one small house"}, embedder.default_options());
  const json one = json_of(post(service, "/v1/embeddings", {{"input", ids[0]}}));
  const json both = json_of(post(service, "/v1/embeddings", {{"input", ids}}));
  ASSERT_EQ(one["data"].size(), 1U);
  ASSERT_EQ(both["data"].size(), 2U);
  EXPECT_EQ(one["data"][0]["embedding"].get<std::vector<float>>(), expected[0].values);
  EXPECT_EQ(both["data"][1]["embedding"].get<std::vector<float>>(), expected[1].values);
  EXPECT_EQ(one["usage"]["prompt_tokens"], ids[0].size());
  expect_error(post(service, "/v1/embeddings", {{"input", {1, 1'000'000}}}), 400, {"input", "1000000"});
  expect_error(post(service, "/v1/embeddings", {{"input", {{1}, {-1}}}}), 400, {"input"});
  expect_error(post(service, "/v1/embeddings", {{"input", std::vector<int>(5000, 1)}}), 400, {"5000"});
}

TEST(TextEmbeddingsInference, EmbedsPredictsAndTokenizes) {
  Service service(serving({"bert_texts"}));
  const pipelines::TextEmbedder embedder(golden_folder("bert_texts"));
  pipelines::TextEmbedOptions options = embedder.default_options();
  options.vector.normalize = true;
  const auto expected = embedder(std::vector<std::string>{"a red dog"}, options);
  const json vectors = json_of(post(service, "/embed", {{"inputs", "a red dog"}}));
  ASSERT_EQ(vectors.size(), 1U);
  EXPECT_EQ(vectors[0].get<std::vector<float>>(), expected[0].values);
  EXPECT_EQ(json_of(post(service, "/embed", {{"inputs", {"a red dog", "one"}}}))[0], vectors[0]);

  const pipelines::TextClassifier classifier(golden_folder("bert_texts"));
  const auto labels = classifier(std::vector<std::string>{"a red dog"});
  const json predicted = json_of(post(service, "/predict", {{"inputs", "a red dog"}}));
  EXPECT_EQ(predicted[0]["label"], labels[0].labels[0].label);
  EXPECT_EQ(predicted[0]["score"].get<float>(), labels[0].labels[0].probability);
  const json pairs = json_of(post(service, "/predict", {{"inputs", {{"a red dog", "a dog"}, {"one"}}}}));
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[1].size(), labels[0].labels.size());

  // A list of two texts is a pair, as in TEI, of one a text; a list of lists is a list of such.
  EXPECT_EQ(json_of(post(service, "/predict", {{"inputs", json::array({"a red dog", "a dog"})}})), pairs[0]);
  EXPECT_EQ(json_of(post(service, "/predict", {{"inputs", json::array({"a red dog"})}})), predicted);
  for (const json& wrong :
       {json::array(), json::array({"a", "b", "c"}), json::array({json::array({"a"}), "b"}), json(3)})
    expect_error(post(service, "/predict", {{"inputs", wrong}}), 400, {"inputs"});

  // The root does what the first text encoder is for, as TEI's does.
  EXPECT_EQ(json_of(post(service, "/", {{"inputs", "a red dog"}})), predicted);
  Service without_labels(serving({"bert_masked"}));
  EXPECT_EQ(json_of(post(without_labels, "/", {{"inputs", "a red dog"}})),
            json_of(post(without_labels, "/embed", {{"inputs", "a red dog"}})));

  const json best = json_of(
      post(service, "/predict",
           {{"inputs", "a red dog"}, {"parameters", {{"top_k", 1}, {"function_to_apply", nullptr}}}}));
  EXPECT_EQ(best, json::array({predicted[0]}));

  const json tokens = json_of(post(service, "/tokenize", {{"inputs", {"a red dog"}}}));
  EXPECT_TRUE(tokens[0][0]["special"].get<bool>());
  EXPECT_EQ(tokens[0][1]["start"], 0);
  // The part of the input, also of a token that the vocabulary lacks.
  const std::string text = "a r\u00e9d dog";
  const json parts = json_of(post(service, "/tokenize", {{"inputs", text}}));
  for (const json& token : parts[0]) {
    if (token["special"].get<bool>()) continue;
    const size_t begin = token["start"], end = token["stop"];
    EXPECT_EQ(token["text"], text.substr(begin, end - begin));
  }
  expect_error(post(service, "/tokenize", {{"inputs", "a"}, {"model", "gpt"}}), 404, {"'gpt'", "bert_texts"});
  std::string long_text;
  for (int i = 0; i < 600'000; ++i) long_text += "a ";
  expect_error(post(service, "/tokenize", {{"inputs", json::array({long_text, long_text})}}), 400,
               {"1048576 tokens"});
  expect_error(post(service, "/rerank", {{"query", "a"}, {"texts", {"b"}}}), 400, {"one label"});
  const json info = json_of(ask(service, {.method = "GET", .path = "/info"}));
  EXPECT_EQ(info["model_id"], "bert_texts");
  EXPECT_EQ(info["model_dtype"], "float32");
  ServiceOptions in_int8 = serving({"bert_texts"});
  in_int8.load.dtype = DType::i8;
  Service small(in_int8);
  EXPECT_EQ(json_of(ask(small, {.method = "GET", .path = "/info"}))["model_dtype"], "int8");
  const HttpResponse error = post(service, "/embed", {{"input", "a"}});
  expect_error(error, 400, {"inputs"});
  EXPECT_EQ(json::parse(error.body)["error_type"], "Validation");
}

TEST(TextEmbeddingsInference, PromptsHaveNames) {
  const Scratch scratch;
  std::filesystem::copy(golden_folder("bert_texts"), scratch / "m");
  scratch.write("m/config_sentence_transformers.json", R"({"prompts": {"query": "one small "}})");
  ServiceOptions options;
  options.folders = {{"m", scratch / "m"}, {"bert_texts", golden_folder("bert_texts")}};
  Service service(options);
  const json plain = json_of(post(service, "/embed", {{"inputs", "house"}}));
  const json with_prompt = json_of(post(service, "/embed", {{"inputs", "house"}, {"prompt_name", "query"}}));
  EXPECT_NE(with_prompt, plain);
  EXPECT_EQ(with_prompt, json_of(post(service, "/embed", {{"inputs", "one small house"}})));
  EXPECT_EQ(json_of(post(service, "/tokenize", {{"inputs", "house"}, {"prompt_name", "query"}})),
            json_of(post(service, "/tokenize", {{"inputs", "one small house"}})));
  expect_error(post(service, "/embed", {{"inputs", "house"}, {"prompt_name", "passage"}}), 400, {"passage"});
  Service without(serving({"bert_texts"}));
  expect_error(post(without, "/embed", {{"inputs", "house"}, {"prompt_name", "query"}}), 400, {"prompts"});
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
  EXPECT_NE(header_of(page, "Content-Security-Policy"), "");
  service.drain();
  EXPECT_EQ(ask(service, {.method = "GET", .path = "/ready"}).status, 503);
  EXPECT_EQ(ask(service, {.method = "GET", .path = "/health"}).status, 200);
}

// scripts/openapi writes it.
TEST(Operation, TheOpenApiDocumentHasEveryRoute) {
  Service service(serving({"bert_texts"}));
  const json document = json_of(ask(service, {.method = "GET", .path = "/openapi.json"}));
  std::set<std::string> documented, existing;
  for (const auto& [path, methods] : document["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      if (method == "parameters") continue;
      std::string route = path;
      if (const size_t parameter = route.find('{'); parameter != std::string::npos)
        route.replace(parameter, route.npos, "*");
      documented.insert((method == "get" ? "GET " : "POST ") + route);
      EXPECT_TRUE(operation["responses"].contains("200")) << path;
    }
  }
  for (const auto& routes : {serve::openai_routes(), serve::libretranslate_routes(), serve::tei_routes(),
                             serve::own_routes(), serve::operation_routes()}) {
    for (const serve::Route& route : routes) existing.insert(std::string(route.method) + " " + route.path);
  }
  EXPECT_EQ(documented, existing);
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
