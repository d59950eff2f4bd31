// Tools in chats of OpenAI's protocol.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "qkv/serve/server.h"
#include "tests/serve/answers.h"
#include "tests/support/chat_model.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;

constexpr const char* kPath = "/v1/chat/completions";

json function_tool(const char* name, const json& parameters) {
  return {{"type", "function"},
          {"function", {{"name", name}, {"description", "A tool."}, {"parameters", parameters}}}};
}

// Short values, so that a model of random weights ends.
json both_tools() {
  const json unit{{"enum", {"C", "F"}}}, city{{"type", "string"}, {"maxLength", 4}};
  return json::array({function_tool("weather", {{"type", "object"},
                                                {"properties", {{"unit", unit}, {"city", city}}},
                                                {"required", {"unit", "city"}}}),
                      function_tool("now", {{"type", "object"}, {"properties", json::object()}})});
}

json question() { return json::array({{{"role", "user"}, {"content", "Is it warm in Rome?"}}}); }

class ChatTools : public ::testing::Test {
 protected:
  static serve::ServiceOptions serving_tools(const Scratch& scratch) {
    const std::filesystem::path templates = QKV_TEST_DATA "/jinja/templates";
    write_chat_model(scratch / "model", read_file(templates / "qwen25_tools.jinja"));
    write_chat_model(scratch / "plain", read_file(templates / "chatml.jinja"));
    serve::ServiceOptions options;
    options.folders = {{"model", scratch / "model"}, {"plain", scratch / "plain"}};
    return options;
  }
  json asking(const json& more) const {
    json request{{"model", "model"}, {"messages", question()}, {"max_tokens", 150}, {"temperature", 50},
                 {"seed", 4},        {"tools", both_tools()}};
    request.update(more);
    return request;
  }
  json choices(const json& more) { return json_of(post(service_, kPath, asking(more)))["choices"]; }
  // Likewise, and expects that a stream has the same.
  json streamed_choices(const json& more) {
    const json whole = choices(more);
    json expected = json::array(), streamed = json::array();
    for (const json& choice : whole) {
      const json& message = choice["message"];
      json calls = json::array();
      for (const json& call : message.value("tool_calls", json::array())) calls.push_back(call["function"]);
      expected.push_back({{"text", message["content"].is_null() ? "" : message["content"]},
                          {"calls", calls},
                          {"reason", choice["finish_reason"]}});
      streamed.push_back({{"text", ""}, {"calls", json::array()}, {"reason", nullptr}});
    }
    json request = asking(more);
    request["stream"] = true;
    for (const std::string& event : events_of(post(service_, kPath, request).body)) {
      if (event == "[DONE]") continue;
      const json choice = json::parse(event)["choices"].at(0);
      json& own = streamed.at(choice["index"].get<size_t>());
      own["text"] = own["text"].get<std::string>() + choice["delta"].value("content", "");
      for (const json& call : choice["delta"].value("tool_calls", json::array())) {
        EXPECT_EQ(call["index"], own["calls"].size());
        own["calls"].push_back(call["function"]);
      }
      own["reason"] = choice["finish_reason"];
    }
    EXPECT_EQ(streamed, expected);
    return whole;
  }
  void refused(const json& more, const std::vector<std::string>& parts) {
    expect_error(post(service_, kPath, asking(more)), 400, parts);
  }

  Scratch scratch_;
  serve::Service service_{serving_tools(scratch_)};
};

TEST_F(ChatTools, AreCalledIfRequired) {
  std::set<std::string> names, ids;
  size_t most = 0, count = 0;
  for (const json& choice : choices({{"tool_choice", "required"}, {"n", 12}})) {
    SCOPED_TRACE(choice.dump());
    const json& message = choice["message"];
    if (choice["finish_reason"] == "length") continue;
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_TRUE(message["content"].is_null());
    for (const json& call : message["tool_calls"]) {
      EXPECT_EQ(call["type"], "function");
      EXPECT_EQ(call["id"].get<std::string>().size(), 9U);
      EXPECT_FALSE(call.contains("index"));
      ids.insert(call["id"]);
      names.insert(call["function"]["name"]);
      const json arguments = json::parse(call["function"]["arguments"].get<std::string>());
      EXPECT_EQ(arguments.size(), call["function"]["name"] == "now" ? 0U : 2U);
    }
    most = std::max(most, message["tool_calls"].size());
    count += message["tool_calls"].size();
  }
  EXPECT_EQ(names, (std::set<std::string>{"weather", "now"}));
  EXPECT_GT(most, 1U);
  EXPECT_EQ(ids.size(), count) << "each call has its own";
}

TEST_F(ChatTools, ANamedOneIsCalledOnce) {
  const json named{{"type", "function"}, {"function", {{"name", "weather"}}}};
  for (const json& choice : choices({{"tool_choice", named}, {"n", 4}})) {
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U) << choice;
    EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "weather");
  }
}

TEST_F(ChatTools, StreamTheSameCalls) {
  size_t calls = 0;
  for (const json& choice : streamed_choices({{"tool_choice", "required"}, {"n", 3}}))
    calls += choice["message"].value("tool_calls", json::array()).size();
  EXPECT_GT(calls, 1U);
}

// A limit of tokens may cut a call anywhere.
TEST_F(ChatTools, ThatAreCutAreTheSameInAStream) {
  int texts = 0, calls = 0;
  for (int most = 1; most <= 90; ++most) {
    SCOPED_TRACE(most);
    const json message =
        streamed_choices({{"tool_choice", "required"}, {"max_tokens", most}, {"seed", 7}})[0]["message"];
    EXPECT_EQ(message["content"].is_null(), message.contains("tool_calls"))
        << "what is cut is a text, unless complete calls came before it";
    ++(message["content"].is_null() ? calls : texts);
  }
  EXPECT_GT(texts, 10);
  EXPECT_GT(calls, 5);
}

TEST_F(ChatTools, AreInThePromptUnlessTheChoiceIsNone) {
  const auto prompt_tokens = [&](const json& more) {
    return json_of(post(service_, kPath, asking(more)))["usage"]["prompt_tokens"].get<int>();
  };
  const int without = prompt_tokens({{"tools", nullptr}, {"max_tokens", 1}});
  EXPECT_EQ(prompt_tokens({{"tool_choice", "none"}, {"max_tokens", 1}}), without);
  EXPECT_GT(prompt_tokens({{"tool_choice", "auto"}, {"max_tokens", 1}}), without + 100);
  EXPECT_EQ(prompt_tokens({{"tools", json::array()}, {"max_tokens", 1}}), without);
}

// The answer, its calls' results, and the next answer.
TEST_F(ChatTools, TakeResults) {
  const json message = choices({{"tool_choice", "required"}, {"parallel_tool_calls", false}})[0]["message"];
  json messages = question();
  messages.push_back(message);
  const json& call = message["tool_calls"].at(0);
  messages.push_back({{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "warm"}});
  const json answer = json_of(post(service_, kPath, asking({{"messages", messages}, {"max_tokens", 5}})));
  const json shorter = json_of(post(service_, kPath, asking({{"max_tokens", 5}})));
  EXPECT_GT(answer["usage"]["prompt_tokens"], shorter["usage"]["prompt_tokens"].get<int>() + 20);
}

TEST_F(ChatTools, RefuseWhatIsWrong) {
  refused({{"model", "plain"}}, {"tools", "chat template of model 'plain'"});
  refused({{"tool_choice", "always"}}, {"tool_choice", "required"});
  refused({{"tool_choice", {{"type", "function"}, {"function", {{"name", "x"}}}}}},
          {"tool_choice.function.name: expected the name of a tool"});
  for (const json& bad : json::array({5, "", json::array()}))
    refused({{"tool_choice", bad}}, {"tool_choice: expected "});
  refused({{"tool_choice", {{"type", "x"}, {"function", {{"name", "now"}}}}}},
          {"tool_choice.type", "function"});
  refused({{"tools", json::object()}}, {"tools: expected a list of tools"});
  refused({{"tools", nullptr}, {"tool_choice", "required"}}, {"tool_choice", "without tools"});
  refused({{"tools", {{{"type", "retrieval"}}}}}, {"tools[0].type"});
  refused({{"tools", 5}}, {"tools"});
  refused({{"parallel_tool_calls", 1}}, {"parallel_tool_calls"});
  refused({{"response_format", {{"type", "json_object"}}}}, {"response_format", "beside tools"});
  json strict = both_tools();
  strict[0]["function"]["strict"] = true;
  strict[0]["function"]["parameters"]["properties"]["city"]["pattern"] = "x";
  refused({{"tools", strict}}, {"tools: weather: parameters: properties.city.pattern"});
  const auto with_calls = [&](const char* role, const json& call, const std::vector<std::string>& parts) {
    refused({{"messages", {{{"role", role}, {"content", "a"}, {"tool_calls", {call}}}}}}, parts);
  };
  const json function{{"name", "f"}, {"arguments", "{}"}};
  json many = json::array();
  for (int i = 0; i < 2049; ++i) many.push_back({{"function", function}});
  const json calls{{"role", "assistant"}, {"tool_calls", many}};
  refused({{"messages", {calls}}}, {"messages[0].tool_calls: expected at most 2048 calls"});
  json last = calls;
  last["tool_calls"] = json::array({many[0]});
  refused({{"messages", {last}}, {"continue_final_message", true}, {"add_generation_prompt", false}},
          {"messages[0].tool_calls", "continues the last message"});
  last["tool_calls"] = json::object();
  refused({{"messages", {last}}}, {"messages[0].tool_calls: expected a list of calls"});
  const std::string deep = R"({"a": )" + std::string(56, '[') + std::string(56, ']') + "}";
  last["tool_calls"] = json::array({{{"function", {{"name", "f"}, {"arguments", deep}}}}});
  refused({{"messages", {last}}},
          {"messages[0].tool_calls[0].function.arguments: expected the JSON of an object"});
  with_calls("user", {{"id", "x"}, {"function", function}}, {"messages[0].tool_calls", "assistant"});
  with_calls("assistant", {{"id", "x"}}, {"messages[0].tool_calls[0]", "function"});
  with_calls("assistant", {{"function", {{"name", "f"}, {"arguments", "{"}}}},
             {"messages[0].tool_calls[0].function.arguments"});
  with_calls("assistant", {{"function", {{"name", "f"}, {"arguments", "[]"}}}},
             {"arguments: expected the JSON of an object"});
}

}  // namespace
