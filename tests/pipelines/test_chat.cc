// Chat templates, against transformers (tests/golden/chat.py), and what is refused.

#include "qkv/pipelines/chat.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/hub/pretrained.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using nlohmann::json;
using qkv::testing::message_of;
using qkv::testing::Scratch;

const std::filesystem::path kTokenizer = QKV_TEST_DATA "/apps/golden/hub/SmolLM2-135M";

// The tokenizer's folder with further files; an object is merged into the file of that name.
void write_folder(const std::filesystem::path& folder, const json& files) {
  std::filesystem::create_directories(folder);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    write_file_atomically(folder / name, read_file(kTokenizer / name));
  for (const auto& [name, content] : files.items()) {
    std::filesystem::create_directories((folder / name).parent_path());
    json merged = content;
    if (content.is_object()) {
      merged = json::parse(read_file(folder / name));
      merged.update(content);
    }
    write_file_atomically(folder / name, merged.is_string() ? merged.get<std::string>() : merged.dump());
  }
}

std::vector<ChatMessage> messages_of(const json& list) {
  return chat_messages(parse_json(list.dump(), "messages"));
}

ChatTemplate template_of(const Scratch& scratch, const json& files, const std::string& name = "default") {
  write_folder(scratch / "model", files);
  return {scratch / "model", text::Tokenizer::load(scratch / "model"), name};
}

constexpr const char* kLastMessage = "{{ messages[-1].content }}";

TEST(ChatTemplate, RendersAndTokenizesLikeTransformers) {
  const json golden = json::parse(read_file(QKV_TEST_DATA "/pipelines/golden/chat.json"));
  ASSERT_GT(golden["cases"].size(), 10u);
  for (const json& one : golden["cases"]) {
    const Scratch scratch;
    ChatTemplateOptions options{.add_generation_prompt = false};
    std::string name = "default";
    for (const auto& [key, value] : one["options"].items()) {
      if (key == "add_generation_prompt") {
        options.add_generation_prompt = value;
      } else if (key == "continue_final_message") {
        options.continue_final_message = value;
      } else if (key == "chat_template") {
        name = value;
      } else {
        options.variables.emplace_back(key, parse_json(value.dump(), key));
      }
    }
    const ChatTemplate chat = template_of(scratch, golden["folders"][one["folder"]], name);
    const std::string text = chat.render(messages_of(one["messages"]), options);
    EXPECT_EQ(text, one["text"]) << one;
    EXPECT_EQ(chat.ids(text), one["ids"].get<std::vector<int32_t>>()) << one;
  }
}

TEST(ChatTemplate, AMissingTemplateNamesTheFilesLookedFor) {
  const Scratch scratch;
  const auto fails_with = [&](const json& files, const std::string& name,
                              const std::vector<std::string>& parts) {
    const std::string message = message_of<DataError>([&] { template_of(scratch, files, name); });
    for (const std::string& part : parts) EXPECT_NE(message.find(part), message.npos) << message;
  };
  fails_with(
      json::object(), "default",
      {"/model: ", "chat_template.jinja", "tokenizer_config.json", "chat_template.json", "found none"});
  EXPECT_FALSE(ChatTemplate::exists(scratch / "model"));
  fails_with({{"chat_template.json", R"({"chat_template": 5})"}}, "default",
             {"chat_template.json: chat_template: expected a text"});
  fails_with({{"chat_template.jinja", "{% if %}"}}, "default", {"/model: chat template"});
  fails_with({{"chat_template.jinja", "x"}}, "rag", {"named 'rag', found those named default"});
  EXPECT_TRUE(ChatTemplate::exists(scratch / "model"));
}

TEST(ChatTemplate, ReadsTheFileOfProcessors) {
  const Scratch scratch;
  const ChatTemplate chat =
      template_of(scratch, {{"chat_template.json", json{{"chat_template", kLastMessage}}.dump()}});
  EXPECT_EQ(chat.render(messages_of({{{"role", "user"}, {"content", "a"}}})), "a");
}

// As LLaVA's and SmolVLM's.
TEST(ChatTemplate, OfListsOfParts) {
  const Scratch scratch;
  constexpr const char* kSource =
      "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
      "{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}{{ part['text'] }}{% "
      "endfor %}"
      "{% endfor %}";
  const ChatTemplate chat = template_of(scratch, {{"chat_template.jinja", kSource}});
  const auto messages = messages_of({{{"role", "user"}, {"content", "a cat"}}});
  EXPECT_EQ(chat.render(messages, {.add_generation_prompt = false}), "USER: a cat");
  const auto listed = messages_of({{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "a dog"}}}}}});
  EXPECT_EQ(chat.render(listed, {.add_generation_prompt = false}), "USER: a dog");
  const ChatTemplate plain = template_of(scratch, {{"chat_template.jinja", kLastMessage}});
  EXPECT_EQ(plain.render(messages, {.add_generation_prompt = false}), "a cat");
}

TEST(ChatTemplate, RefusesWhatHasNoPrompt) {
  const Scratch scratch;
  const ChatTemplate chat = template_of(scratch, {{"chat_template.jinja",
                                                   "{{ messages[0].content }}{% if messages[0].role != "
                                                   "'user' %}{{ raise_exception('no!') }}{% endif %}"}});
  const std::vector<ChatMessage> one{{.role = "user", .content = "a"}}, two{one[0], one[0]};
  EXPECT_NE(message_of<UsageError>([&] { chat.render({}); }).find("at least one message"), std::string::npos);
  const std::vector<ChatMessage> broken{{.role = "user", .content = "a\xff"}};
  EXPECT_NE(message_of<UsageError>([&] { chat.render(broken); }).find("content: expected UTF-8"),
            std::string::npos);
  const std::vector<ChatMessage> other{{.role = "system", .content = "a"}};
  EXPECT_NE(message_of<DataError>([&] { chat.render(other); }).find("no!"), std::string::npos);
  EXPECT_NE(
      message_of<UsageError>([&] { chat.render(one, {.continue_final_message = true}); }).find("found both"),
      std::string::npos);
  const ChatTemplateOptions goes_on{.add_generation_prompt = false, .continue_final_message = true};
  EXPECT_EQ(chat.render(one, goes_on), "a");
  EXPECT_NE(message_of<DataError>([&] { chat.render(two, goes_on); }).find("changes or omits"),
            std::string::npos);
  for (const char* list : {R"([{"content": "a"}])", R"([{"role": 1, "content": "a"}])", R"(["a"])", "{}"})
    EXPECT_NE(message_of<DataError>([&] { chat_messages(parse_json(list, "messages")); }).find("messages"),
              std::string::npos);
}

TEST(ChatMessages, AreReadBackAsWritten) {
  const std::vector<ChatMessage> messages{{.role = "system", .content = "\"quoted\"\n\\"},
                                          {.role = "user", .content = "Straße"}};
  const std::vector<ChatMessage> again = chat_messages(parse_json(to_json(messages), "messages"));
  ASSERT_EQ(again.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again[i].role, messages[i].role);
    EXPECT_EQ(again[i].content, messages[i].content);
  }
  EXPECT_TRUE(chat_messages(parse_json(to_json(std::vector<ChatMessage>()), "messages")).empty());
}

TEST(Chat, ReadsTheTemplatesOfAGgufFile) {
  const std::filesystem::path file = QKV_TEST_DATA "/models/golden_gguf/chat.gguf";
  const text::Tokenizer tokenizer = models::load_tokenizer(file);
  const auto messages = messages_of(json::array({{{"role", "user"}, {"content", "the"}}}));
  EXPECT_TRUE(ChatTemplate::exists(file));
  const ChatTemplate usual(file, tokenizer);
  EXPECT_EQ(usual.render(messages), "<s><|im_start|>user\nthe<|im_end|><|im_start|>assistant\n");
  EXPECT_EQ(usual.ids("<s><|im_start|>the"), (std::vector<int32_t>{1, 3, 21}));
  EXPECT_EQ(ChatTemplate(file, tokenizer, "plain").render(messages), "the</s>");
  EXPECT_NE(message_of<DataError>([&] { ChatTemplate(file, tokenizer, "tool"); }).find("default, plain"),
            std::string::npos);
  const std::filesystem::path none = QKV_TEST_DATA "/models/golden_gguf/qwen2.gguf";
  EXPECT_NE(message_of<DataError>([&] { ChatTemplate(none, tokenizer); }).find("tokenizer.chat_template"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::pipelines
