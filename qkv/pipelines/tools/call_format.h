#pragma once
// Calls of tools, as a model's chat template writes them in the messages of an assistant.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/pipelines/chat.h"
#include "qkv/search/grammar_constraint.h"
#include "qkv/text/tokenizer.h"

namespace qkv::pipelines {

// May stand around a call.
inline constexpr std::string_view kBlanks = search::GrammarStart::kBlanks;

struct ToolCall {
  std::string id, name;
  std::string arguments;  // JSON of an object
};

// Calls are begin NAME middle ARGUMENTS (between NAME middle ARGUMENTS)... end, as in
// <tool_call>\n{"name": "NAME", "arguments": ARGUMENTS}\n</tool_call>.
struct CallFormat {
  std::string begin = {}, middle = {}, between = {},
              end = {};          // between: empty if an answer has one call at most
  bool arguments_first = false;  // ARGUMENTS and NAME change places
  // The beginning of `begin` that marks a call in an answer, and whether only an answer that begins with it
  // has calls.
  std::string trigger = {};
  bool whole_answer = false;
  std::vector<int32_t> spelled = {};  // special tokens in these texts, ascending
  // How messages have calls: the template reads arguments as text, no content beside calls, and calls as a
  // part of the content alone.
  bool arguments_are_text = false, no_content = false, in_content = false;
};

// The format of a template, found by rendering conversations with calls. Nothing for a template that shows no
// tools, and for calls of another kind. `ends`: the end tokens of answers.
std::optional<CallFormat> call_format(const ChatTemplate& chat, const text::Tokenizer& tokenizer,
                                      std::span<const int32_t> ends);
std::optional<CallFormat> call_format(const ChatTemplate& chat, const LoadedLanguageModel& model);

// The message of an assistant that calls tools after a text, which may be empty; a format without content
// beside calls loses it.
ChatMessage message_with_calls(const CallFormat& format, const std::string& content,
                               std::span<const ToolCall> calls);

// Reads [{"id", "type": "function", "function": {"name", "arguments"}}, ...], the calls of an earlier answer;
// arguments are an object or its JSON. Throws DataError naming the place.
std::vector<ToolCall> tool_calls_of(const JsonValue& list);

// Writes the "tool_calls" of these messages as the format has them. Throws the errors of tool_calls_of().
void write_calls(const CallFormat& format, std::vector<ChatMessage>& messages);

}  // namespace qkv::pipelines
