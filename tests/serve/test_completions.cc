// Completions of OpenAI's protocol: the generator's results, in its form.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "qkv/pipelines/json.h"
#include "tests/serve/answers.h"
#include "tests/serve/folders.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;
using serve::HttpResponse;
using serve::Service;

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
       .body = json{{"prompt", "a"}, {"max_tokens", 3900}, {"min_tokens", 3900}, {"n", 16}, {"stream", true}}
                   .dump(),
       .headers = {{"X-Timeout-Ms", "300"}}});
  const HttpResponse response = reply->wait();
  EXPECT_EQ(response.status, 200) << "it had begun";
  EXPECT_NE(response.body.find("deadline_exceeded"), std::string::npos);
  EXPECT_EQ(reply->failed(), 504);
  const HttpResponse metrics = ask(service, {.method = "GET", .path = "/metrics"});
  EXPECT_NE(metrics.body.find("qkv_requests_total{route=\"/v1/completions\",status=\"504\"} 1\n"),
            std::string::npos);
}

}  // namespace
