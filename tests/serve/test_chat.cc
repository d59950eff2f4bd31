// Completions of chats in OpenAI's protocol: the folder's template makes the prompt.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "qkv/serve/server.h"
#include "tests/serve/answers.h"
#include "tests/serve/folders.h"
#include "tests/serve/http/raw_client.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;
using serve::HttpResponse;
using serve::Service;

constexpr const char* kChat = "/v1/chat/completions";

json message(const char* role, json content) { return {{"role", role}, {"content", std::move(content)}}; }
json user(json content) { return json::array({message("user", std::move(content))}); }

class Chats : public ::testing::Test {
 protected:
  // The choices that a completion of these ids has.
  std::vector<std::string> continued(const std::vector<int>& ids, json more = {{"temperature", 0}}) {
    json request{{"model", "chat"}, {"prompt", ids}, {"max_tokens", 12}};
    request.update(more);
    std::vector<std::string> texts;
    const json answer = json_of(post(service_, "/v1/completions", request));
    for (const json& choice : answer["choices"]) texts.push_back(choice["text"]);
    return texts;
  }
  json chat(const json& messages, const json& more = {}) {
    json request{{"model", "chat"}, {"messages", messages}, {"max_tokens", 12}, {"temperature", 0}};
    if (!more.is_null()) request.update(more);
    return json_of(post(service_, kChat, request));
  }
  void refused(const json& more, const std::vector<std::string>& parts) {
    json request{{"model", "chat"}, {"messages", user("a dog")}, {"max_tokens", 2}};
    request.update(more);
    expect_error(post(service_, kChat, request), 400, parts);
  }

  Scratch scratch_;
  Service service_{serving_chat(scratch_)};
};

TEST_F(Chats, ContinueTheTemplatesPrompt) {
  const json whole = chat(user("a red dog"));
  const json choice = whole["choices"].at(0);
  EXPECT_EQ(choice["message"]["content"], continued({1, 21, 4, 10, 6, 2, 22})[0]);
  EXPECT_NE(choice["message"]["content"], "");
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["index"], 0);
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(whole["object"], "chat.completion");
  EXPECT_EQ(whole["model"], "chat");
  EXPECT_EQ(whole["usage"]["prompt_tokens"], 7) << "one start token, and special tokens in the text";
  EXPECT_EQ(whole["usage"]["total_tokens"], 7 + whole["usage"]["completion_tokens"].get<int>());
  // A conversation.
  const json turns{message("system", "good"), message("user", "a dog"), message("assistant", "sleeps"),
                   message("user", "the man")};
  EXPECT_EQ(chat(turns)["choices"][0]["message"]["content"],
            continued({1, 3, 16, 2, 21, 4, 6, 2, 22, 15, 2, 21, 3, 5, 2, 22})[0]);
}

TEST_F(Chats, JoinPartsByLineEnds) {
  const json parts =
      json::array({{{"type", "text"}, {"text", "a red"}}, {{"type", "text"}, {"text", "dog"}}});
  EXPECT_EQ(chat(user(parts))["choices"], chat(user("a red\ndog"))["choices"]);
}

TEST_F(Chats, StreamTheSameText) {
  const json more{{"seed", 3},          {"min_tokens", 8},  {"n", 2},
                  {"temperature", 0.9}, {"logprobs", true}, {"top_logprobs", 2}};
  const json whole = chat(user("a red dog"), more);
  json streaming = more;
  streaming.update({{"model", "chat"},
                    {"messages", user("a red dog")},
                    {"max_tokens", 12},
                    {"stream", true},
                    {"stream_options", {{"include_usage", true}}}});
  const auto events = events_of(post(service_, kChat, streaming).body);
  ASSERT_GE(events.size(), 6U);
  EXPECT_EQ(events.back(), "[DONE]");
  const json last = json::parse(events[events.size() - 2]);
  EXPECT_EQ(last["choices"], json::array());
  EXPECT_EQ(last["usage"]["total_tokens"], whole["usage"]["total_tokens"]);
  std::vector<json> joined(2);
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    const json event = json::parse(events[i]);
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_EQ(event["seed"], 3);
    const json& one = event["choices"].at(0);
    json& choice = joined.at(one["index"]);
    if (choice.is_null()) {
      EXPECT_EQ(one["delta"], json({{"role", "assistant"}, {"content", ""}})) << "the first";
      choice = {{"text", ""}, {"tokens", json::array()}, {"reason", nullptr}};
      continue;
    }
    EXPECT_TRUE(choice["reason"].is_null()) << "an event after the last";
    choice["text"] = choice["text"].get<std::string>() + one["delta"].value("content", "");
    for (const json& token : one["logprobs"]["content"]) choice["tokens"].push_back(token);
    choice["reason"] = one["finish_reason"];
  }
  for (size_t i = 0; i < 2; ++i) {
    const json& expected = whole["choices"][i];
    EXPECT_EQ(joined[i]["text"], expected["message"]["content"]);
    EXPECT_EQ(joined[i]["tokens"], expected["logprobs"]["content"]);
    EXPECT_EQ(joined[i]["reason"], expected["finish_reason"]);
  }
  EXPECT_NE(joined[0]["text"], joined[1]["text"]) << "each choice has its own random numbers";
}

TEST_F(Chats, HaveTheLogProbabilitiesOfCompletions) {
  const json request{{"model", "chat"},  {"prompt", {1, 21, 4, 10, 6, 2, 22}},
                     {"max_tokens", 12}, {"temperature", 0.8},
                     {"seed", 11},       {"logprobs", 3}};
  const json expected = json_of(post(service_, "/v1/completions", request))["choices"][0]["logprobs"];
  const json choice =
      chat(user("a red dog"),
           {{"temperature", 0.8}, {"seed", 11}, {"logprobs", true}, {"top_logprobs", 3}})["choices"][0];
  const json& tokens = choice["logprobs"]["content"];
  ASSERT_EQ(tokens.size(), expected["tokens"].size());
  ASSERT_GT(tokens.size(), 3U);
  std::string text;
  for (size_t t = 0; t < tokens.size(); ++t) {
    EXPECT_EQ(tokens[t]["token"], expected["tokens"][t]);
    EXPECT_EQ(tokens[t]["logprob"], expected["token_logprobs"][t]);
    const json& top = tokens[t]["top_logprobs"];
    ASSERT_EQ(top.size(), 3U);
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(top[k]["logprob"], expected["top_logprobs"][t][top[k]["token"].get<std::string>()]);
      EXPECT_LE(top[k]["logprob"], top[k == 0 ? 0 : k - 1]["logprob"]) << "most likely first";
    }
    std::string bytes;
    for (const json& byte : tokens[t]["bytes"]) bytes += static_cast<char>(byte.get<int>());
    EXPECT_EQ(bytes, tokens[t]["token"]);
    text += bytes;
  }
  EXPECT_EQ(text, choice["message"]["content"]);
  EXPECT_EQ(chat(user("a"), {{"logprobs", true}})["choices"][0]["logprobs"]["content"][0]["top_logprobs"],
            json::array());
  refused({{"top_logprobs", 2}}, {"top_logprobs", "logprobs"});
  refused({{"logprobs", true}, {"top_logprobs", 21}}, {"top_logprobs"});
}

TEST_F(Chats, CountThePromptTokensThatWereCached) {
  const json turns = user("a red dog and a blue man in the house of two good dog");
  const json first = chat(turns);
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  const json next{turns[0], message("assistant", first["choices"][0]["message"]["content"]),
                  message("user", "sings")};
  const json second = chat(next);
  EXPECT_GE(second["usage"]["prompt_tokens_details"]["cached_tokens"], 15) << "the first turn";
  EXPECT_EQ(chat(next)["choices"], second["choices"]);
}

TEST_F(Chats, DrawChoicesAndSeeds) {
  const json sampled{{"temperature", 1.2}, {"seed", 5}, {"n", 3}};
  std::vector<std::string> texts;
  const json answer = chat(user("a red dog"), sampled);
  for (const json& choice : answer["choices"]) texts.push_back(choice["message"]["content"]);
  EXPECT_EQ(texts, continued({1, 21, 4, 10, 6, 2, 22}, sampled));
  const json first = chat(user("a red dog"), {{"temperature", 1.2}}),
             second = chat(user("a red dog"), {{"temperature", 1.2}});
  EXPECT_NE(first["seed"], second["seed"]);
  EXPECT_EQ(chat(user("a red dog"), {{"temperature", 1.2}, {"seed", first["seed"]}})["choices"],
            first["choices"]);
}

TEST(ChatSampling, IsTheFoldersUnlessTheRequestHasItsOwn) {
  const Scratch scratch;
  const serve::ServiceOptions options = serving_chat(scratch);
  scratch.write("long/generation_config.json",
                json{{"eos_token_id", 2}, {"do_sample", true}, {"temperature", 0.6}, {"top_k", 4}}.dump());
  Service service(options);
  const json request{{"model", "chat"}, {"messages", user("a red dog")}, {"max_tokens", 30}, {"seed", 8}};
  const auto sampled = [&](const json& more) {
    json changed = request;
    changed.update(more);
    return json_of(post(service, kChat, changed))["choices"];
  };
  const json own = sampled(json::object());
  EXPECT_EQ(own, sampled({{"temperature", 0.6}, {"top_k", 4}}));
  EXPECT_NE(own, sampled({{"temperature", 1}}));
  EXPECT_NE(own, sampled({{"top_k", 0}}));
}

// A model of random weights, whose vocabulary has all bytes.
TEST(ChatFormats, AreThoseOfTheSchema) {
  const Scratch scratch;
  std::filesystem::copy(QKV_TEST_DATA "/apps/golden/hub/SmolLM2-135M", scratch / "model");
  scratch.write("model/chat_template.jinja", "{{ messages[0].content }}");
  serve::ServiceOptions options;
  options.folders = {{"model", scratch / "model"}};
  Service service(options);
  const json schema{{"type", "object"},
                    {"properties",
                     {{"colour", {{"enum", {"red", "blue"}}}},
                      {"n", {{"type", "integer"}, {"minimum", 0}, {"maximum", 99}}}}},
                    {"required", {"colour", "n"}}};
  const json format{{"type", "json_schema"},
                    {"json_schema", {{"name", "x"}, {"strict", true}, {"schema", schema}}}};
  const json request{
      {"messages", user("The captain")}, {"max_tokens", 80}, {"n", 5}, {"temperature", 2}, {"seed", 1},
      {"response_format", format}};
  const json answer = json_of(post(service, kChat, request));
  std::set<std::string> texts;
  for (const json& choice : answer["choices"]) {
    const std::string text = choice["message"]["content"];
    const json value = json::parse(text);
    EXPECT_TRUE(value.at("colour") == "red" || value.at("colour") == "blue") << text;
    EXPECT_TRUE(value.at("n") >= 0 && value.at("n") <= 99) << text;
    EXPECT_EQ(value.size(), 2U) << text;
    EXPECT_EQ(choice["finish_reason"], "stop");
    texts.insert(text);
  }
  EXPECT_EQ(answer["choices"].size(), 5U);
  EXPECT_GT(texts.size(), 1U);
  const json completed =
      json_of(post(service, "/v1/completions",
                   {{"prompt", "The captain"}, {"max_tokens", 60}, {"response_format", format}}));
  EXPECT_TRUE(json::parse(completed["choices"][0]["text"].get<std::string>()).is_object());
}

TEST_F(Chats, EndBeforeAStopText) {
  const std::string text = chat(user("a red dog"))["choices"][0]["message"]["content"];
  ASSERT_GE(text.size(), 6U);
  const std::string stop = text.substr(text.size() / 2, 3);
  const json choice = chat(user("a red dog"), {{"stop", json::array({stop})}})["choices"][0];
  EXPECT_EQ(choice["message"]["content"], text.substr(0, text.find(stop)));
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST_F(Chats, FillTheContextByDefault) {
  std::filesystem::copy(golden_folder("llama"), scratch_ / "short");
  scratch_.write("short/chat_template.jinja", kChatTemplate);
  serve::ServiceOptions options;
  options.folders = {{"short", scratch_ / "short"}};
  Service service(options);
  const json whole =
      json_of(post(service, kChat, {{"messages", user("a red dog")}, {"seed", 1}, {"min_tokens", 13}}));
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(whole["usage"]["total_tokens"], 21) << "20 positions, and the last token, which is not read";
  expect_error(post(service, kChat, {{"messages", user("a a a a a a a a a a a a a a a a a a a a a a")}}), 400,
               {"messages: ", "20"});
  for (const char* limit : {"max_tokens", "max_completion_tokens"})
    EXPECT_EQ(
        json_of(post(
            service, kChat,
            {{"messages", user("a red dog")}, {"min_tokens", 3}, {limit, 3}}))["usage"]["completion_tokens"],
        3);
  expect_error(
      post(service, kChat, {{"messages", user("a")}, {"max_tokens", 3}, {"max_completion_tokens", 4}}), 400,
      {"max_completion_tokens", "max_tokens"});
}

TEST_F(Chats, PassVariablesToTheTemplate) {
  EXPECT_EQ(
      chat(user("a dog"), {{"chat_template_kwargs", {{"mood", "good"}}}})["choices"][0]["message"]["content"],
      continued({1, 21, 4, 6, 2, 22, 16})[0]);
  EXPECT_EQ(chat(user("a dog"), {{"add_generation_prompt", false}})["choices"][0]["message"]["content"],
            continued({1, 21, 4, 6, 2})[0]);
  const json turns{message("user", "a dog"), message("assistant", "sleeps in")};
  EXPECT_EQ(chat(turns, {{"add_generation_prompt", false},
                         {"continue_final_message", true}})["choices"][0]["message"]["content"],
            continued({1, 21, 4, 6, 2, 22, 15, 12})[0]);
  refused({{"continue_final_message", true}}, {"continue_final_message", "add_generation_prompt"});
  refused({{"chat_template_kwargs", {{"messages", 1}}}}, {"chat_template_kwargs", "messages"});
  refused({{"chat_template_kwargs", "thinking"}}, {"chat_template_kwargs"});
}

TEST_F(Chats, NameAMissingTemplate) {
  expect_error(post(service_, kChat, {{"model", "llama"}, {"messages", user("a")}}), 400,
               {"llama", "chat_template"});
  EXPECT_EQ(json_of(post(service_, kChat, {{"messages", user("a")}, {"max_tokens", 1}}))["model"], "chat")
      << "the first model that can";
  const json models = json_of(ask(service_, {.method = "GET", .path = "/v1/models"}))["data"];
  EXPECT_EQ(std::ranges::count(models[0]["tasks"], "chat"), 0);
  EXPECT_EQ(std::ranges::count(models[1]["tasks"], "chat"), 1);
}

TEST_F(Chats, AnswerWithTheTemplatesOwnErrors) {
  refused({{"messages", json::array({message("developer", "good")})}}, {"no developer speaks here"});
}

TEST(ChatTemplates, AreRefusedByName) {
  const auto answer = [](const std::string& source) {
    const Scratch scratch;
    Service service(serving_chat(scratch, source));
    EXPECT_EQ(json_of(post(service, "/v1/completions",
                           {{"model", "chat"}, {"prompt", "a"}, {"max_tokens", 1}}))["model"],
              "chat")
        << "the model itself works";
    return post(service, kChat, {{"model", "chat"}, {"messages", user("a")}});
  };
  expect_error(answer("{% for m in messages %}"), 400, {"chat template"});
  expect_error(answer("{% import 'x' as x %}"), 400, {"chat template", "import"});
  expect_error(answer("{% for i in range(99999) %}{% for j in range(99999) %}a{% endfor %}{% endfor %}"), 400,
               {"chat template"});
  expect_error(answer("{{ 'a' * 99999999999 }}"), 400, {"chat template"});
}

TEST_F(Chats, TakeNeutralValues) {
  EXPECT_EQ(chat(user("a red dog"), {{"tools", json::array()},
                                     {"tool_choice", "none"},
                                     {"response_format", {{"type", "text"}}},
                                     {"functions", nullptr},
                                     {"modalities", {"text"}},
                                     {"audio", nullptr},
                                     {"presence_penalty", 0},
                                     {"frequency_penalty", 0.0},
                                     {"logit_bias", json::object()},
                                     {"store", false},
                                     {"metadata", json::object()},
                                     {"parallel_tool_calls", nullptr},
                                     {"stream_options", nullptr},
                                     {"user", "me"}})["choices"],
            chat(user("a red dog"))["choices"]);
  // What clients send back of an earlier answer.
  json answered = chat(user("a dog"))["choices"][0]["message"];
  const json plain{message("user", "a dog"), message("assistant", answered["content"]),
                   message("user", "good")};
  answered.update({{"tool_calls", nullptr},
                   {"function_call", nullptr},
                   {"audio", nullptr},
                   {"annotations", json::array()}});
  EXPECT_EQ(chat({message("user", "a dog"), answered, message("user", "good")})["choices"],
            chat(plain)["choices"]);
}

TEST_F(Chats, RefuseWhatTheyDoNotDo) {
  const json function{{"type", "function"}, {"function", {{"name", "f"}}}};
  refused({{"tools", {function}}}, {"tools: expected none, as the chat template of model 'chat'"});
  refused({{"functions", {{{"name", "f"}}}}}, {"functions"});
  refused({{"response_format", {{"type", "grammar"}}}}, {"response_format.type", "grammar"});
  refused({{"response_format", {{"type", "json_schema"}}}},
          {"response_format: expected a member 'json_schema'"});
  refused({{"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "x"}}}}}}}},
          {"json_schema: type: expected types of object"});
  refused({{"response_format", {{"type", "json_object"}}}},
          {"expected a vocabulary with a token that goes on"});
  refused({{"modalities", {"text", "audio"}}}, {"modalities"});
  refused({{"audio", {{"voice", "alloy"}}}}, {"audio"});
  refused({{"presence_penalty", 0.5}}, {"presence_penalty"});
  refused({{"logit_bias", {{"5", 1}}}}, {"logit_bias"});
  refused({{"colour", "red"}}, {"unknown field", "colour"});
  refused({{"n", 129}}, {"n"});
  refused({{"max_tokens", 0}}, {"max_tokens"});
}

TEST_F(Chats, RefuseMalformedMessages) {
  const auto messages = [&](const char* given, const std::vector<std::string>& parts) {
    refused({{"messages", json::parse(given)}}, parts);
  };
  messages("null", {"messages"});
  messages(R"("hello")", {"messages"});
  messages("[]", {"messages", "at least one"});
  messages(R"(["hello"])", {"messages[0]"});
  messages(R"([{"content": "a"}])", {"messages[0]", "role"});
  messages(R"([{"role": "user"}])", {"messages[0]", "content"});
  messages(R"([{"role": "user", "content": "a"}, {"role": "robot", "content": "a"}])",
           {"messages[1].role", "robot", "developer"});
  messages(R"([{"role": 5, "content": "a"}])", {"messages[0].role"});
  messages(R"([{"role": "user", "content": null}])", {"messages[0].content"});
  messages(R"([{"role": "user", "content": 5}])", {"messages[0].content", "5"});
  messages(R"([{"role": "user", "content": {"a": "b"}}])", {"messages[0].content"});
  messages(R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])",
           {"messages[0].content[0].type", "image_url"});
  messages(R"([{"role": "user", "content": [{"type": "text"}]}])", {"messages[0].content[0]", "text"});
  messages(R"([{"role": "user", "content": [{"type": "text", "text": "a", "size": 1}]}])",
           {"messages[0].content[0].size"});
  messages(R"([{"role": "user", "content": ["a"]}])", {"messages[0].content[0]"});
  messages(R"([{"role": "user", "content": "a", "colour": "red"}])", {"messages[0].colour"});
  messages(R"([{"role": "user", "content": "a", "name": 5}])", {"messages[0].name"});
  messages(R"([{"role": "assistant", "content": "a", "tool_calls": [{"id": "x"}]}])",
           {"messages[0].tool_calls"});
}

TEST_F(Chats, SurviveHostileBodies) {
  const auto body = [&](const std::string& text, const std::vector<std::string>& parts) {
    expect_error(ask(service_, {.path = kChat, .body = text}), 400, parts);
  };
  body(R"({"messages": [{"role": "user", "content": "\ud800"}]})", {});
  body("{\"messages\": [{\"role\": \"user\", \"content\": \"\xff\"}]}", {"request"});
  body(R"({"messages": )" + std::string(100'000, '['), {"request"});
  body(R"({"messages": [{"role": "user", "content": )" + std::string(60, '[') + std::string(60, ']') + "}]}",
       {"messages[0].content"});
  json many = json::array();
  for (int i = 0; i < 10'000; ++i) many.push_back(message(i % 2 == 0 ? "user" : "assistant", "a dog"));
  refused({{"messages", many}}, {"messages: ", "4000"});
  std::string large;
  while (large.size() < 3'000'000) large += "a red dog ";
  refused({{"messages", user(large)}}, {"messages"});
  std::string deep = "1";
  for (int i = 0; i < 55; ++i) deep = "{\"x\":" + deep + "}";
  EXPECT_EQ(post(service_, kChat,
                 {{"messages", user("a")},
                  {"max_tokens", 1},
                  {"chat_template_kwargs", {{"mood", json::parse(deep)}}}})
                .status,
            200);
}

// Over a socket: the events of a stream, and a model that serves others after a client has left.
TEST(ChatSockets, StreamEventsAndEndWithTheClient) {
  const Scratch scratch;
  serve::ServerOptions options{.service = serving_chat(scratch)};
  options.http.port = 0;
  serve::Server server(options);
  json request{
      {"model", "chat"}, {"messages", user("a red dog")}, {"stream", true}, {"seed", 5}, {"max_tokens", 6}};
  RawClient whole(server.port());
  ASSERT_TRUE(whole.send(request_bytes(kChat, request.dump())));
  const std::string stream = whole.until("data: [DONE]");
  EXPECT_NE(stream.find("200 OK"), std::string::npos) << stream;
  EXPECT_NE(stream.find("text/event-stream"), std::string::npos) << stream;
  EXPECT_LT(stream.find("\"role\":\"assistant\""), stream.find("\"finish_reason\":\"")) << stream;
  request.update({{"max_tokens", 3000}, {"min_tokens", 3000}, {"n", 4}});
  RawClient leaves(server.port());
  ASSERT_TRUE(leaves.send(request_bytes(kChat, request.dump())));
  leaves.until("\"content\"");
  leaves.reset();
  const serve::WorkerCounters& counters =
      server.service().models().find("chat", "chat")->decoder()->counters();
  for (int i = 0; i < 3000 && counters.cancelled < 4; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(counters.cancelled, 4) << "rows of the client that left";
}

}  // namespace
