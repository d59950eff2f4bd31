#include "qkv/pipelines/tools/call_format.h"

#include <algorithm>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/pipelines/tools/call_reader.h"

namespace qkv::pipelines {
namespace {

constexpr size_t kLeastTrigger = 4;  // bytes, so that no word of a text is one
constexpr const char* kQuestion = "qkv question";
constexpr const char* kAnswer = "qkv answer";
constexpr const char* kTools =
    R"([{"type": "function", "function": {"name": "qkv_tool", "description": "qkv tool", "parameters":
    {"type": "object", "properties": {"qkv_parameter": {"type": "string", "description": "qkv parameter"}},
    "required": ["qkv_parameter"]}}}])";

// Mistral's templates require ids of nine characters.
const ToolCall kFirst{"qkvcall01", "qkv_first", R"({"qkv_first_key": "qkv_first_value"})"};
const ToolCall kSecond{"qkvcall02", "qkv_second", R"({"qkv_second_key": "qkv_second_value"})"};

// The prompt of messages that begin with kQuestion, from the question's end on; nothing if the template
// refuses them.
std::optional<std::string> after_question(const ChatTemplate& chat,
                                          const std::vector<ChatMessage>& messages) {
  const ChatTemplateOptions options{.add_generation_prompt = false, .tools = parse_json(kTools, "tools")};
  try {
    const std::string prompt = chat.render(messages, options);
    const size_t at = prompt.find(kQuestion);
    if (at != prompt.npos) return prompt.substr(at + std::string_view(kQuestion).size());
  } catch (const Error&) {
  }
  return {};
}

std::vector<ChatMessage> conversation(const CallFormat& format, std::span<const ToolCall> calls) {
  std::vector<ChatMessage> messages{{"user", kQuestion}, message_with_calls(format, "", calls)};
  for (const ToolCall& call : calls) {
    messages.push_back({.role = "tool",
                        .content = "qkv result",
                        .fields = {{"tool_call_id", parse_json(quoted_json(call.id), "id")},
                                   {"name", parse_json(quoted_json(call.name), "name")}}});
  }
  messages.push_back({"assistant", kAnswer});
  messages.push_back({"user", "qkv end"});
  return messages;
}

// The object {KEY: VALUE} of a call, with any spaces.
std::optional<text::ByteRange> find_arguments(std::string_view text, const ToolCall& call) {
  const std::string key = concat('"', call.name, "_key\""), value = concat('"', call.name, "_value\"");
  const size_t at = text.find(key), of_value = text.find(value, at);
  if (at == text.npos || at == 0 || of_value == text.npos) return {};
  const size_t open = text.find_last_not_of(kBlanks, at - 1);
  const size_t close = text.find_first_not_of(kBlanks, of_value + value.size());
  if (open == text.npos || close == text.npos || text[open] != '{' || text[close] != '}') return {};
  return text::ByteRange{open, close + 1};
}

struct Place {
  text::ByteRange first, second;  // of NAME and ARGUMENTS, as they come
  bool arguments_first;
};

std::optional<Place> find_call(std::string_view text, const ToolCall& call) {
  const size_t at = text.find(call.name);
  const std::optional<text::ByteRange> arguments = find_arguments(text, call);
  if (!arguments) return {};
  const size_t name_at = at < arguments->begin ? at : text.find(call.name, arguments->end);
  if (name_at == text.npos) return {};
  const text::ByteRange name{name_at, name_at + call.name.size()};
  if (name_at < arguments->begin) return Place{name, *arguments, false};
  return Place{*arguments, name, true};
}

// Removes a member "...id": "ID" of an object. False if the id is there in another way.
bool remove_id(std::string& text, const std::string& id) {
  const size_t at = text.find(id);
  if (at == text.npos) return true;
  const size_t comma = text.rfind(',', at);
  if (comma == text.npos || !std::string_view(text).substr(at + id.size()).starts_with('"')) return false;
  std::string key = text.substr(comma + 1, at - comma - 1);
  std::erase_if(key, [](char byte) { return kBlanks.find(byte) != kBlanks.npos; });
  if (!key.starts_with('"') || !key.ends_with("id\":\"")) return false;
  text.erase(comma, at + id.size() + 1 - comma);
  return text.find(id) == text.npos;
}

// Up to the first end token.
std::optional<std::string> before_end(std::string_view text, const text::Tokenizer& tokenizer,
                                      std::span<const int32_t> ends) {
  size_t end = text.npos;
  for (const int32_t id : ends) {
    if (const auto token = tokenizer.token(id); token && !token->empty())
      end = std::min(end, text.find(*token));
  }
  if (end == text.npos) return {};
  return std::string(text.substr(0, end));
}

void set_trigger(CallFormat& format) {
  const std::string& begin = format.begin;
  format.whole_answer = begin.starts_with('{') || begin.starts_with("[{");
  const size_t mark = format.whole_answer ? begin.npos : begin.find_first_of(">]");
  format.trigger = begin.substr(0, mark == begin.npos ? mark : mark + 1);
  if (format.trigger.size() < kLeastTrigger) format.trigger = begin;
}

// Whether answers in the format have the calls that they were made of, and the format has nothing of the
// conversations that it was found in.
bool reads_back(const CallFormat& format) {
  const std::string all = concat(format.begin, format.middle, format.between, format.end);
  if (format.trigger.size() < kLeastTrigger || all.find("qkv") != all.npos) return false;
  const auto call = [&](const ToolCall& one) {
    return format.arguments_first ? concat(one.arguments, format.middle, one.name)
                                  : concat(one.name, format.middle, one.arguments);
  };
  std::string answer = format.begin + call(kFirst);
  size_t count = 1;
  if (!format.between.empty()) answer += format.between + call(kSecond), ++count;
  CallReader reader(format, {kFirst.name, kSecond.name});
  std::vector<ToolCall> calls;
  std::string text = reader.add(answer + format.end, calls);
  text += reader.finish();
  return text.empty() && calls.size() == count && calls[0].arguments == kFirst.arguments &&
         calls[0].name == kFirst.name && calls[count - 1].name == (count == 2 ? kSecond : kFirst).name;
}

// CallFormat::between of two calls, which begin `text`; empty if several calls have another form than one, or
// an answer each.
std::string find_between(const CallFormat& format, std::string_view text, const text::Tokenizer& tokenizer,
                         std::span<const int32_t> ends) {
  const auto first = find_call(text, kFirst), second = find_call(text, kSecond);
  if (!first || !second || first->second.end >= second->first.begin) return {};
  const auto part = [text](size_t from, size_t to) { return std::string(text.substr(from, to - from)); };
  const auto call = [&](const Place& of) {
    return part(of.first.begin, of.first.end) + format.middle + part(of.second.begin, of.second.end);
  };
  std::string between = part(first->second.end, second->first.begin);
  if (!text.starts_with(format.begin + call(*first) + between + call(*second))) return {};
  auto end = before_end(text.substr(second->second.end), tokenizer, ends);
  if (!end || !remove_id(*end, kSecond.id) || *end != format.end) return {};
  if (before_end(between, tokenizer, ends) || !remove_id(between, kFirst.id)) return {};
  return between;
}

// Whether the template shows calls in any form.
enum class Found { format, other_form, nothing };

// Completes a format whose flags say how messages have calls.
Found find_texts(CallFormat& format, const ChatTemplate& chat, const text::Tokenizer& tokenizer,
                 std::span<const int32_t> ends) {
  const auto answered =
      after_question(chat, {{"user", kQuestion}, {"assistant", kAnswer}, {"user", "qkv end"}});
  const auto one = after_question(chat, conversation(format, {&kFirst, 1}));
  if (!answered || !one || one->find("_first_value") == one->npos) return Found::nothing;
  const std::optional<Place> place = find_call(*one, kFirst);
  // A call comes where the text of an answer begins.
  size_t header = answered->find(kAnswer);
  if (!place || header == answered->npos) return Found::other_form;
  while (header > 0 && kBlanks.find((*answered)[header - 1]) != kBlanks.npos) --header;
  if (one->compare(0, header, *answered, 0, header) != 0) return Found::other_form;
  const size_t begin = one->find_first_not_of(kBlanks, header);
  const auto end = before_end(std::string_view(*one).substr(place->second.end), tokenizer, ends);
  if (begin >= place->first.begin || !end) return Found::other_form;
  format.begin = one->substr(begin, place->first.begin - begin);
  format.middle = one->substr(place->first.end, place->second.begin - place->first.end);
  format.end = *end;
  if (!remove_id(format.end, kFirst.id)) return Found::other_form;
  format.arguments_first = place->arguments_first;
  if (const auto two = after_question(chat, conversation(format, std::vector{kFirst, kSecond})))
    format.between =
        find_between(format, std::string_view(*two).substr(std::min(begin, two->size())), tokenizer, ends);
  if (before_end(format.begin, tokenizer, ends) || before_end(format.middle, tokenizer, ends))
    return Found::other_form;
  set_trigger(format);
  return reads_back(format) ? Found::format : Found::other_form;
}

// A template that describes calls as text, but does not show those of messages (SmolLM3's): the format that
// it describes is that of Hermes.
std::optional<CallFormat> described_format(const std::string& prompt) {
  if (prompt.find("<tool_call>") == prompt.npos || prompt.find("\"arguments\"") == prompt.npos) return {};
  return CallFormat{.begin = "<tool_call>\n{\"name\": \"",
                    .middle = "\", \"arguments\": ",
                    .between = "}\n</tool_call>\n<tool_call>\n{\"name\": \"",
                    .end = "}\n</tool_call>",
                    .trigger = "<tool_call>",
                    .in_content = true};
}

std::optional<CallFormat> find_format(const ChatTemplate& chat, const text::Tokenizer& tokenizer,
                                      std::span<const int32_t> ends) {
  const std::vector<ChatMessage> question{{"user", kQuestion}};
  std::string with_tools;
  try {
    with_tools = chat.render(question, {.tools = parse_json(kTools, "tools")});
    if (with_tools == chat.render(question)) return {};
  } catch (const Error&) {
    return {};
  }
  bool is_other = false;
  for (const bool no_content : {false, true}) {
    for (const bool are_text : {false, true}) {
      CallFormat format{.arguments_are_text = are_text, .no_content = no_content};
      const Found found = find_texts(format, chat, tokenizer, ends);
      if (found == Found::format) return format;
      is_other = is_other || found == Found::other_form;
    }
  }
  if (is_other) return {};
  return described_format(with_tools);
}

}  // namespace

std::optional<CallFormat> call_format(const ChatTemplate& chat, const text::Tokenizer& tokenizer,
                                      std::span<const int32_t> ends) {
  std::optional<CallFormat> format = find_format(chat, tokenizer, ends);
  if (!format) return {};
  const std::string all = concat(format->begin, format->middle, format->between, format->end);
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    if (!tokenizer.is_special(id)) continue;
    if (const auto token = tokenizer.token(id); token && !token->empty() && all.find(*token) != all.npos)
      format->spelled.push_back(id);
  }
  return format;
}

ChatMessage message_with_calls(const CallFormat& format, const std::string& content,
                               std::span<const ToolCall> calls) {
  ChatMessage message{"assistant", content};
  std::string list;
  for (const auto& [id, name, arguments] : calls) {
    if (format.in_content) {
      message.content += concat(list.empty() ? format.begin : format.between, name, format.middle, arguments);
      list += name;
      continue;
    }
    list += concat(list.empty() ? "[" : ", ", R"({"id": )", quoted_json(id),
                   R"(, "type": "function", "function": {"name": )", quoted_json(name), R"(, "arguments": )",
                   format.arguments_are_text ? quoted_json(arguments) : arguments, "}}");
  }
  if (format.in_content) {
    message.content += format.end;
  } else {
    message.fields.emplace_back("tool_calls", parse_json(list + "]", "tool_calls"));
    message.has_content = !format.no_content;
  }
  return message;
}

std::vector<ToolCall> tool_calls_of(const JsonValue& list) {
  constexpr size_t kMostCalls = 2048;
  if (!list.is_array()) list.fail("a list of calls");
  if (list.size() > kMostCalls) list.fail(concat("at most ", kMostCalls, " calls"));
  std::vector<ToolCall> calls;
  for (const JsonValue& one : list.items()) {
    if (one.string_or("type", "function") != "function") one["type"].fail("\"function\"");
    const JsonValue function = one["function"], arguments = function["arguments"];
    if (!arguments.is_object() && !arguments.is_string()) arguments.fail("an object or its JSON");
    std::string json = arguments.is_object() ? arguments.text() : arguments.string();
    if (json.empty()) json = "{}";
    bool is_object = false;
    try {
      is_object = parse_json(json, "arguments", {.max_depth = 56}).is_object();
    } catch (const DataError&) {
    }
    if (!is_object) arguments.fail("the JSON of an object, nested at most 56 deep");
    calls.push_back({one.string_or("id", ""), function["name"].string(), std::move(json)});
  }
  return calls;
}

void write_calls(const CallFormat& format, std::vector<ChatMessage>& messages) {
  for (ChatMessage& message : messages) {
    const auto list =
        std::ranges::find(message.fields, "tool_calls", &std::pair<std::string, JsonValue>::first);
    if (list == message.fields.end() || list->second.is_null()) continue;
    const std::vector<ToolCall> calls = tool_calls_of(list->second);
    message.fields.erase(list);
    if (calls.empty()) continue;
    ChatMessage written = message_with_calls(format, message.content, calls);
    written.fields.insert(written.fields.end(), message.fields.begin(), message.fields.end());
    message = std::move(written);
  }
}

std::optional<CallFormat> call_format(const ChatTemplate& chat, const LoadedLanguageModel& model) {
  std::vector<int32_t> ends = model.model->config().eos_ids;
  ends.insert(ends.end(), model.generation.eos_ids.begin(), model.generation.eos_ids.end());
  return call_format(chat, model.tokenizer, ends);
}

}  // namespace qkv::pipelines
