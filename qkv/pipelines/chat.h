#pragma once
// Chat templates: conversations to the prompts of a language model, as apply_chat_template() of transformers.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/base/json.h"
#include "qkv/pipelines/generate.h"

namespace qkv::pipelines {

// A message of a conversation.
struct ChatMessage {
  std::string role;  // system, user, assistant, or another one that the template knows
  std::string content;
  // Further fields of the message, such as "reasoning_content". A "content" among them, such as a list of
  // parts, replaces `content`. Fields that are null are ignored.
  std::vector<std::pair<std::string, JsonValue>> fields = {};
  bool has_content = true;  // false: it is none, such as beside calls of tools
};

// A user's message: images, then a text. Its content is a list of parts, those of images with their files.
ChatMessage message_with_images(const std::string& text, std::span<const std::string> files);

// Reads [{"role": "user", "content": "..."}, ...]. Throws DataError naming the place for a message without a
// role, and for a role that is no text.
std::vector<ChatMessage> chat_messages(const JsonValue& list);

struct ChatTemplateOptions {
  bool add_generation_prompt = true;    // the prompt ends with the beginning of an answer
  bool continue_final_message = false;  // the prompt ends within the last message; excludes the former
  // Variables of the template: {"enable_thinking", false}. Those of transformers' special tokens (bos_token,
  // eos_token, unk_token, sep_token, pad_token, cls_token, mask_token) may be replaced.
  std::vector<std::pair<std::string, JsonValue>> variables = {};
  // Descriptions of tools that the answer may call: [{"type": "function", "function": {"name": ...}}, ...].
  std::optional<JsonValue> tools = {};

  // Adds a variable that a user gives. Throws DataError with the value's path for the names of what render()
  // itself sets: messages, tools and add_generation_prompt.
  void set(std::string_view name, const JsonValue& value);
};

// The sources of a folder's chat templates by name, "default" the usual one; empty: none.
std::map<std::string, std::string> chat_templates(const std::filesystem::path& folder);

// A folder's chat template. Const: safe to use from several threads.
class ChatTemplate {
 public:
  // Reads, as transformers do, chat_template.jinja and additional_chat_templates/NAME.jinja; without these,
  // "chat_template" of tokenizer_config.json, a text or a list of {"name", "template"}; without that, of
  // chat_template.json; of a GGUF file, its templates. The template is the only one, or that of this name.
  // One that shows contents only if they are lists of parts (LLaVA's) gets lists of one part of type "text".
  // Throws DataError: naming these files if there is none, with the known names for another name, and with
  // the line for a template that jinja::Template does not take.
  ChatTemplate(const std::filesystem::path& folder, const text::Tokenizer& tokenizer,
               const std::string& name = "default");
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // Whether a folder has a template of any name.
  static bool exists(const std::filesystem::path& folder);

  // The prompt's text. Throws UsageError for no message, for text that is not UTF-8 and for options that
  // exclude each other; DataError for what the template refuses (raise_exception: for instance, roles that do
  // not alternate), for an exceeded limit, and if continue_final_message finds no text to go on from.
  std::string render(std::span<const ChatMessage> messages, const ChatTemplateOptions& options = {}) const;

  // The prompt's tokens: no special token is added to those in the text. As in transformers, a special token
  // that is spelled in a message ("<|im_end|>") becomes that token: a message can imitate others.
  std::vector<int32_t> ids(std::string_view prompt) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

// The search that generation_config.json recommends for a conversation: with "do_sample", sampling, otherwise
// greedy search; answers without a length of their own end with the model's positions. Throws the errors of
// TextGenerator::default_options().
GenerateOptions chat_options(const TextGenerator& generator);

// [{"role": "user", "content": "Hi"}, ...], one message a line, which chat_messages() reads. Further fields
// are left out.
std::string to_json(std::span<const ChatMessage> messages);

}  // namespace qkv::pipelines
