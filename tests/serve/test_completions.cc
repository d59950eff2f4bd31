// Completions of OpenAI's protocol: the generator's results, in its form.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "qkv/base/utf8.h"
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
    std::string joined;
    EXPECT_EQ(logprobs["tokens"].size(), tokens[i].size());
    for (size_t t = 0; t < tokens[i].size(); ++t) {
      const auto token = logprobs["tokens"][t].get<std::string>();
      EXPECT_EQ(texts[i].substr(logprobs["text_offset"][t], token.size()), token);
      joined += token;
      EXPECT_EQ(logprobs["top_logprobs"][t][token], tokens[i][t]);
      EXPECT_LE(logprobs["top_logprobs"][t].size(), 2U);  // the most likely one, and the chosen one
    }
    EXPECT_EQ(joined, texts[i]);
  }
}

// A model whose tokens are bytes: the euro sign has three.
serve::ServiceOptions serving_bytes(const Scratch& scratch) {
  std::filesystem::copy(golden_folder("llama"), scratch / "bytes");
  json tokenizer = json::parse(read_file(scratch / "bytes/tokenizer.json"));
  json vocabulary{{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}, {"\u00e2", 3}, {"\u0124", 4}, {"\u00ac", 5}};
  for (int id = 6; id < 23; ++id) vocabulary[std::string(1, static_cast<char>('a' + id - 6))] = id;
  tokenizer["model"] = {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}};
  const json bytes{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  tokenizer["pre_tokenizer"] = tokenizer["decoder"] = bytes;
  scratch.write("bytes/tokenizer.json", tokenizer.dump());
  serve::ServiceOptions options;
  options.folders = {{"bytes", scratch / "bytes"}};
  return options;
}

// The tokens of one character: the last one has its text, and all have its offset.
TEST(Completions, CountCharactersOfSeveralTokensOnce) {
  const Scratch scratch;
  Service service(serving_bytes(scratch));
  const json echoed = json_of(post(service, "/v1/completions",
                                   {{"prompt", "a\u20acb"},
                                    {"max_tokens", 0},
                                    {"echo", true},
                                    {"logprobs", 0}}))["choices"][0]["logprobs"];
  EXPECT_EQ(echoed["tokens"], json({"a", "", "", "\u20ac", "b"}));
  EXPECT_EQ(echoed["text_offset"], json({0, 1, 1, 1, 2}));
  for (int seed = 0; seed < 20; ++seed) {
    const json choice =
        json_of(post(service, "/v1/completions",
                     {{"prompt", "a"}, {"max_tokens", 12}, {"seed", seed}, {"logprobs", 0}}))["choices"][0];
    const json& logprobs = choice["logprobs"];
    std::string joined;
    for (size_t t = 0; t < logprobs["tokens"].size(); ++t) {
      EXPECT_EQ(logprobs["text_offset"][t], decode_utf8(joined).size());
      joined += logprobs["tokens"][t].get<std::string>();
    }
    EXPECT_EQ(joined, choice["text"].get<std::string>());
  }
}

// How evaluation harnesses score texts.
TEST(Completions, ScoreAnEchoedPrompt) {
  Service service(serving({"llama"}));
  const json score =
      json_of(post(service, "/v1/score", {{"model", "llama"}, {"text", "a red dog"}}))["results"][0];
  json request{
      {"prompt", {"a red dog", "one"}}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 2}, {"n", 2}};
  const json found = json_of(post(service, "/v1/completions", request));
  ASSERT_EQ(found["choices"].size(), 4U);
  const json &choice = found["choices"][0], &logprobs = choice["logprobs"];
  EXPECT_EQ(choice["text"], "a red dog");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(found["choices"][1]["logprobs"], logprobs) << "a choice of the same prompt";
  EXPECT_EQ(found["choices"][2]["text"], "one");
  EXPECT_EQ(found["usage"]["completion_tokens"], 0);
  json expected = score["token_log_probabilities"];
  expected.insert(expected.begin(), nullptr);  // the first token is given
  EXPECT_EQ(logprobs["token_logprobs"], expected);
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  std::string joined;
  for (size_t t = 0; t < expected.size(); ++t) {
    const auto token = logprobs["tokens"][t].get<std::string>();
    EXPECT_EQ(logprobs["text_offset"][t], joined.size());
    joined += token;
    if (t == 0) continue;
    const json& top = logprobs["top_logprobs"][t];
    EXPECT_EQ(top[token], expected[t]);
    EXPECT_GE(top.size(), 2U);
    for (const json& other : top) EXPECT_LE(other.get<double>(), 0);
  }
  EXPECT_EQ(joined, "a red dog");
  // With new tokens: those of the prompt, then those of the same request without echo.
  request["max_tokens"] = 3;
  request["temperature"] = 0;
  const json with_new = json_of(post(service, "/v1/completions", request))["choices"][0];
  request["echo"] = false;
  const json new_only = json_of(post(service, "/v1/completions", request))["choices"][0];
  EXPECT_EQ(with_new["text"], "a red dog" + new_only["text"].get<std::string>());
  for (const json& one : new_only["logprobs"]["token_logprobs"]) expected.push_back(one);
  EXPECT_EQ(with_new["logprobs"]["token_logprobs"], expected);
  request["max_tokens"] = 0;
  EXPECT_EQ(json_of(post(service, "/v1/completions", request))["choices"][0]["text"], "");
}

TEST(Completions, StateTheSeedThatTheyDraw) {
  Service service(serving({"llama", "marian"}));
  json request{{"prompt", "a red dog"}, {"max_tokens", 20}};
  const json first = json_of(post(service, "/v1/completions", request)),
             second = json_of(post(service, "/v1/completions", request));
  EXPECT_NE(first["seed"], second["seed"]);
  EXPECT_NE(first["choices"][0]["text"], second["choices"][0]["text"]);
  request["seed"] = first["seed"];
  EXPECT_EQ(json_of(post(service, "/v1/completions", request))["choices"], first["choices"]);
  request["temperature"] = 0;
  EXPECT_FALSE(json_of(post(service, "/v1/completions", request)).contains("seed"));
  const json translation = json_of(post(service, "/v1/translate", {{"text", "forty"}, {"temperature", 1}}));
  EXPECT_EQ(json_of(post(service, "/v1/translate",
                         {{"text", "forty"}, {"temperature", 1}, {"seed", translation["seed"]}})),
            translation);
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
               {"prompt", "token ids from 0 to 22"});
}

TEST(Completions, TakeNeutralValues) {
  Service service(serving({"llama"}));
  const json request{{"prompt", "a red dog"}, {"max_tokens", 4}, {"seed", 3}};
  json neutral = request;
  neutral.update({{"presence_penalty", 0},
                  {"frequency_penalty", 0},
                  {"logit_bias", json::object()},
                  {"suffix", ""},
                  {"stop", nullptr},
                  {"best_of", 1},
                  {"top_k", -1},
                  {"stream_options", {{"include_obfuscation", false}, {"include_usage", nullptr}}}});
  EXPECT_EQ(json_of(post(service, "/v1/completions", neutral))["choices"],
            json_of(post(service, "/v1/completions", request))["choices"]);
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
