// Images in the messages of OpenAI's chats.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "tests/serve/answers.h"
#include "tests/serve/folders.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;
using serve::Service;

constexpr const char* kMessages = "/v1/chat/completions";

json message_of_user(json content) {
  return json::array({{{"role", "user"}, {"content", std::move(content)}}});
}

std::string base64_of(const std::string& bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t three = 0;
    for (size_t i = at; i < at + 3; ++i)
      three = three << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0);
    for (size_t digit = 0; digit < 4; ++digit)
      text += at + digit > bytes.size() ? '=' : kDigits[three >> (18 - 6 * digit) & 63];
  }
  return text;
}

// Of a model of images, in an URL with data.
TEST(ChatImages, AreInTheMessages) {
  serve::ServiceOptions options;
  options.folders = {{"sees", QKV_TEST_DATA "/apps/golden/hub/SmolVLM-256M-Instruct"},
                     {"blind", golden_folder("llama")}};
  Service service(options);
  const auto url = [](const std::string& name) {
    return "data:image/png;base64," +
           base64_of(read_file(concat(QKV_TEST_DATA "/data/golden/images/", name)));
  };
  const json text{{"type", "text"}, {"text", "the man"}};
  const auto image = [](const std::string& at) {
    return json{{"type", "image_url"}, {"image_url", {{"url", at}, {"detail", "auto"}}}};
  };
  const auto ask = [&](const json& parts, const json& more = json::object()) {
    json request{{"model", "sees"},
                 {"messages", message_of_user(parts)},
                 {"max_tokens", 6},
                 {"seed", 1},
                 {"temperature", 0}};
    request.update(more);
    return post(service, kMessages, request);
  };
  const json first = json_of(ask(json::array({text, image(url("rgb.png"))}))),
             again = json_of(ask(json::array({text, image(url("rgb.png"))})));
  EXPECT_GT(first["usage"]["prompt_tokens"], 100);
  EXPECT_EQ(first["choices"], again["choices"]);
  EXPECT_EQ(again["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>() + 1,
            again["usage"]["prompt_tokens"]);
  const json other = json_of(ask(json::array({text, image(url("gray.png"))})));
  EXPECT_NE(other["usage"]["prompt_tokens"], first["usage"]["prompt_tokens"]) << "of other sides";
  EXPECT_NE(other["choices"], first["choices"]);
  const json before = json_of(ask(json::array({image(url("rgb.png")), text})));
  EXPECT_EQ(before["usage"]["prompt_tokens"].get<int>(), first["usage"]["prompt_tokens"]);
  EXPECT_LT(before["usage"]["prompt_tokens_details"]["cached_tokens"], 10) << "the parts are in their order";
  EXPECT_EQ(json_of(ask(json::array({image(url("rgb.png")), image(url("rgb.png")), text})))["choices"].size(),
            1U);
  EXPECT_EQ(
      json_of(ask(json::array({text, image(url("rgb.png"))}), {{"n", 3}, {"logprobs", true}}))["choices"]
          .size(),
      3U);

  // A last message with images goes on after its text.
  const json goes_on{{"continue_final_message", true}, {"add_generation_prompt", false}};
  const json continued = json_of(ask(json::array({image(url("rgb.png")), text}), goes_on));
  EXPECT_LT(continued["usage"]["prompt_tokens"].get<int>(), before["usage"]["prompt_tokens"].get<int>());
  expect_error(ask(json::array({text, image(url("rgb.png"))}), goes_on), 400,
               {"continue_final_message: expected a text at the end"});
  const std::string damaged = url("rgb.png").substr(0, 200);
  expect_error(ask(json::array({text, image("http://example.org/cat.png")})), 400,
               {"messages[0].content[1].image_url.url", "loads no addresses", "http://example.org/cat.png"});
  expect_error(ask(json::array({text, image(damaged)})), 400, {"messages[0].content[1].image_url.url"});
  expect_error(ask(json::array({text, image("data:image/png;base64,????")})), 400,
               {"image_url.url: expected", "multiple of 4"});
  expect_error(ask(json::array({json{{"type", "input_audio"}}})), 400, {"input_audio"});
  expect_error(
      ask(json::array({json{{"type", "image_url"}, {"image_url", {{"url", url("rgb.png")}, {"size", 1}}}}})),
      400, {"size"});
  expect_error(ask("<image> a man"), 400, {"messages: prompt: expected <image> for each of 0 images"});
  const json many = std::vector<json>(300, image("data:image/png;base64,AAAA"));
  expect_error(ask(many), 400, {"at most", "images, which the model has positions for"});
  const json of_system{{"role", "system"}, {"content", json::array({image(url("rgb.png"))})}};
  expect_error(ask(text, {{"messages", json::array({of_system})}}), 400,
               {"only a user's messages have images"});
  const json models = json_of(qkv::testing::ask(service, {.method = "GET", .path = "/v1/models"}))["data"];
  EXPECT_EQ(models[0]["images"], true);
  EXPECT_FALSE(models[1].contains("images"));
}

}  // namespace
