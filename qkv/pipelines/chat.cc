#include "qkv/pipelines/chat.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/utf8.h"
#include "qkv/jinja/template.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/pipelines/search_defaults.h"
#include "qkv/text/lines.h"

namespace qkv::pipelines {
namespace {

namespace fs = std::filesystem;
using Templates = std::map<std::string, std::string>;  // sources by name

constexpr const char* kDefault = "default";

// "chat_template" of a JSON file, by names.
Templates templates_in(const fs::path& model, const char* name) {
  Templates found;
  const auto text = models::read_model_file(model, name);
  if (!text) return found;
  const auto part = parse_json(*text, models::model_file_name(model, name)).find("chat_template");
  if (!part) return found;
  if (part->is_string()) return {{kDefault, part->string()}};
  if (!part->is_array()) part->fail("a text, or a list of names and templates");
  for (const JsonValue& one : part->items()) found[one["name"].string()] = one["template"].string();
  return found;
}

Templates templates_of(const fs::path& folder) {
  Templates found;
  if (const fs::path file = folder / "chat_template.jinja"; fs::exists(file))
    found[kDefault] = read_file(file);
  if (const fs::path more = folder / "additional_chat_templates"; fs::is_directory(more)) {
    for (const fs::path& file : files_in(more)) {
      if (file.extension() == ".jinja") found[file.stem().string()] = read_file(file);
    }
  }
  if (found.empty()) found = templates_in(folder, "tokenizer_config.json");
  if (found.empty()) found = templates_in(folder, "chat_template.json");
  return found;
}

std::string source_of(const fs::path& folder, const std::string& name) {
  const Templates all = templates_of(folder);
  if (all.empty()) {
    throw DataError(concat(folder.string(), ": expected a chat template in ",
                           models::is_gguf(folder)
                               ? "tokenizer.chat_template"
                               : "chat_template.jinja, tokenizer_config.json or chat_template.json",
                           ", found none: a model of conversations has one"));
  }
  if (const auto found = all.find(name); found != all.end()) return found->second;
  std::string names;
  for (const auto& [known, source] : all) names += concat(names.empty() ? "" : ", ", known);
  throw DataError(
      concat(folder.string(), ": expected a chat template named '", name, "', found those named ", names));
}

void require_utf8(const std::string& of, std::string_view text) {
  if (const auto bad = first_bad_utf8(text))
    throw UsageError(concat(of, ": expected UTF-8, found a malformed character at byte ", *bad));
}

// `in_parts`: the content is a list of one part.
jinja::Dict dict_of(const ChatMessage& message, bool in_parts) {
  jinja::Dict dict;
  dict.set("role", message.role);
  dict.set("content", message.content);
  if (in_parts) {
    jinja::Dict part;
    part.set("type", "text");
    part.set("text", message.content);
    dict.set("content", jinja::Value::list({jinja::Value(part)}));
  }
  if (!message.has_content) dict.set("content", jinja::Value());
  std::optional<jinja::Value> reasoning;
  for (const auto& [key, value] : message.fields) {
    if (!value.is_null()) dict.set(key, jinja::Value::of_json(value));
  }
  // Templates read the thoughts of an assistant by different names.
  for (const char* key : {"reasoning_content", "thinking", "reasoning"}) {
    if (const jinja::Value* found = dict.find(key); found != nullptr && !reasoning) reasoning = *found;
  }
  if (reasoning) {
    if (dict.find("thinking") == nullptr) dict.set("thinking", *reasoning);
    dict.set("reasoning_content", *reasoning);
  }
  return dict;
}

// Follows the last message's text, and is found in the prompt.
constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ";

// A list of parts whose last one, a text, the tag follows; and that text.
std::pair<JsonValue, std::string> tagged(const JsonValue& parts) {
  nlohmann::json list = nlohmann::json::parse(parts.text());
  nlohmann::json* const last = list.is_array() && !list.empty() ? &list.back() : nullptr;
  if (last == nullptr || !last->is_object() || !last->contains("text") || !(*last)["text"].is_string())
    throw DataError(
        "continue_final_message: expected a text at the end of the last message, found another part");
  const std::string text = (*last)["text"];
  (*last)["text"] = text + std::string(kTag);
  return {parse_json(list.dump(), "content"), text};
}

// The prompt up to the tag, and without spaces before it if the template removes those of a message.
std::string cut_at_tag(std::string prompt, std::string_view content) {
  const std::string_view tag = kTag.substr(0, kTag.size() - 1);
  const size_t at = prompt.rfind(tag);
  if (at == prompt.npos || prompt.find(text::trimmed(content)) == prompt.npos) {
    throw DataError(
        "continue_final_message: expected the last message in the prompt, found that the chat template "
        "changes or omits it");
  }
  const bool spaces_kept = std::string_view(prompt).substr(at).starts_with(kTag);
  prompt.resize(at);
  if (!spaces_kept) prompt.resize(prompt.find_last_not_of(" \t\n\v\f\r") + 1);
  return prompt;
}

}  // namespace

void ChatTemplateOptions::set(std::string_view name, const JsonValue& value) {
  if (name == "messages" || name == "tools" || name == "add_generation_prompt")
    value.fail("none, as the conversation sets the variable of this name");
  variables.emplace_back(name, value);
}

struct ChatTemplate::State {
  text::Tokenizer tokenizer;
  jinja::Template parsed;
  bool in_parts = false;
};

ChatTemplate::ChatTemplate(const fs::path& folder, const text::Tokenizer& tokenizer,
                           const std::string& name) {
  auto* const state = new State{
      tokenizer, jinja::Template(source_of(folder, name), concat(folder.string(), ": chat template"))};
  state_.reset(state);
  // Templates of models of images may read lists of parts alone, and omit a text without a word.
  const ChatMessage probe{.role = "user", .content = "qkv"};
  const auto shows = [&](bool in_parts) {
    state->in_parts = in_parts;
    try {
      return render({&probe, 1}).find(probe.content) != std::string::npos;
    } catch (const Error&) {
      return false;
    }
  };
  state->in_parts = !shows(false) && shows(true);
}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

bool ChatTemplate::exists(const fs::path& folder) { return !templates_of(folder).empty(); }

std::string ChatTemplate::render(std::span<const ChatMessage> messages,
                                 const ChatTemplateOptions& options) const {
  if (messages.empty()) throw UsageError("chat: expected at least one message, found none");
  if (options.continue_final_message && options.add_generation_prompt) {
    throw UsageError(
        "chat: continue_final_message: expected add_generation_prompt to be off, as no answer begins, found "
        "both");
  }
  std::string final_text;
  std::vector<jinja::Value> list;
  for (const ChatMessage& message : messages) {
    require_utf8("chat: role", message.role);
    require_utf8("chat: content", message.content);
    list.emplace_back(dict_of(message, state_->in_parts));
  }
  if (options.continue_final_message) {
    ChatMessage last = messages.back();
    final_text = last.content;
    last.content += kTag;
    for (auto& [key, value] : last.fields) {
      if (key == "content" && !value.is_null()) std::tie(value, final_text) = tagged(value);
    }
    list.back() = dict_of(last, state_->in_parts);
  }
  jinja::Dict context;
  const text::SpecialTokens& tokens = state_->tokenizer.special_tokens();
  for (const auto& [name, id] :
       std::initializer_list<std::pair<const char*, std::optional<int32_t>>>{{"bos_token", tokens.bos},
                                                                             {"eos_token", tokens.eos},
                                                                             {"unk_token", tokens.unk},
                                                                             {"sep_token", tokens.sep},
                                                                             {"pad_token", tokens.pad},
                                                                             {"cls_token", tokens.cls},
                                                                             {"mask_token", tokens.mask}}) {
    if (!id) continue;
    if (const auto token = state_->tokenizer.token(*id)) context.set(name, *token);
  }
  context.set("messages", jinja::Value::list(std::move(list)));
  context.set("tools", options.tools ? jinja::Value::of_json(*options.tools) : jinja::Value());
  context.set("documents", jinja::Value());
  context.set("add_generation_prompt", options.add_generation_prompt);
  for (const auto& [name, value] : options.variables) context.set(name, jinja::Value::of_json(value));
  std::string prompt = state_->parsed.render(context);
  if (options.continue_final_message) return cut_at_tag(std::move(prompt), final_text);
  return prompt;
}

std::vector<int32_t> ChatTemplate::ids(std::string_view prompt) const {
  text::EncodeOptions plain;
  plain.special_tokens = false;
  return state_->tokenizer.encode(prompt, plain).ids;
}

GenerateOptions chat_options(const TextGenerator& generator) {
  GenerateOptions options = generator.default_options();
  const fs::path& folder = generator.model().folder;
  constexpr const char* kFile = "generation_config.json";
  bool samples = false, has_length = false;
  if (const auto text = models::read_model_file(folder, kFile)) {
    const JsonValue root = parse_json(*text, models::model_file_name(folder, kFile));
    samples = root.boolean_or("do_sample", false);
    has_length = root.has("max_new_tokens") || root.has("max_length");
  }
  if (samples) {
    options.search.sampling = sampling_defaults(generator.model().generation);
    options.search.beam = 1;
  }
  if (!has_length)
    options.search.max_new_tokens = static_cast<int>(generator.model().model->config().max_positions);
  return options;
}

std::map<std::string, std::string> chat_templates(const fs::path& folder) { return templates_of(folder); }

ChatMessage message_with_images(const std::string& text, std::span<const std::string> files) {
  std::string parts;
  for (const std::string& file : files)
    parts += concat(R"({"type": "image", "path": )", quoted_json(file), "}, ");
  return {.role = "user",
          .content = text,
          .fields = {{"content",
                      parse_json(concat("[", parts, R"({"type": "text", "text": )", quoted_json(text), "}]"),
                                 "content")}}};
}

std::vector<ChatMessage> chat_messages(const JsonValue& list) {
  std::vector<ChatMessage> messages;
  for (const JsonValue& one : list.items()) {
    ChatMessage& message = messages.emplace_back();
    message.role = one["role"].string();
    one.members([&](std::string_view key, const JsonValue& value) {
      if (key == "role") return;
      if (key == "content" && value.is_string()) {
        message.content = value.string();
      } else {
        message.fields.emplace_back(key, value);
      }
    });
  }
  return messages;
}

std::string to_json(std::span<const ChatMessage> messages) {
  std::string json;
  for (const ChatMessage& message : messages) {
    const auto parts =
        std::ranges::find(message.fields, "content", &std::pair<std::string, JsonValue>::first);
    json +=
        concat(json.empty() ? "[\n" : ",\n", R"(  {"role": )", quoted_json(message.role), R"(, "content": )",
               parts == message.fields.end() ? quoted_json(message.content) : parts->second.text(), "}");
  }
  return json.empty() ? "[]\n" : json + "\n]\n";
}

}  // namespace qkv::pipelines
