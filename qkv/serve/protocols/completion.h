#pragma once
// Completions of OpenAI's protocol: choices, stop texts, log-probabilities, streaming, usage. How they look
// in JSON is a form: that of texts (text_completion.cc) or of chats (chat_completion.cc).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/tools/call_reader.h"
#include "qkv/serve/protocols/exchange.h"
#include "qkv/serve/protocols/json_text.h"

namespace qkv::serve {

// A token that could have come.
struct LikelyToken {
  int32_t id = 0;
  std::string text = {};  // what it would add; of a token without text (an end token), its spelling
  float log_probability = 0;
};

struct ChoiceToken {
  int32_t id = 0;
  std::string text = {};  // what it adds: of a character of several tokens, the last one has the text
  float log_probability = 0;
  bool given = false;                 // the first token of a prompt, which has no probability
  int64_t offset = 0;                 // in the choice, in characters
  std::vector<LikelyToken> top = {};  // most likely first
};

// A choice, or in a stream what it has gained since its last event.
struct ChoicePart {
  size_t index = 0;
  std::string text = {};
  bool logprobs = false;                 // wanted
  std::vector<ChoiceToken> tokens = {};  // with logprobs
  std::vector<pipelines::ToolCall> calls = {};
  size_t first_call = 0;                // the calls that the choice had before these
  const char* finish_reason = nullptr;  // "stop", "length" or "tool_calls"; null: it goes on
};

struct CompletionForm {
  const char* id_prefix;
  const char* object;  // the type of an answer
  const char* event;   // and of an event of a stream
  const char* prompt;  // the field that has the prompt, for errors
  bool cached_tokens;  // whether usage has the prompt tokens that the prefix cache had
  ResponseJson (*choice)(ChoicePart part);
  ResponseJson (*delta)(ChoicePart part);  // of an event
  ResponseJson (*opening)(size_t index);   // the first delta of each choice; null: none
};

struct CompletionOptions {
  std::string model;
  pipelines::GenerateOptions generate;
  size_t choices = 1;              // of each prompt; choice j of prompt i has key i * choices + j + 1
  std::vector<std::string> stops;  // a choice ends before the first of these texts
  bool echo = false;               // choices begin with the prompt
  bool stream = false, stream_usage = false;
  bool logprobs = false;                            // of the chosen tokens, and with echo of the prompt's
  int top_logprobs = 0;                             // most likely tokens in the place of each chosen one
  bool prompt_only = false;                         // nothing is generated
  std::optional<pipelines::CallReader> calls = {};  // choices may call tools
};

// Answers the exchange in the form, which must live as long. Throws before anything is sent, such as
// HttpError (400) for a prompt that the model cannot read.
void complete(const ModelHandle& model, const ExchangeHandle& exchange, const CompletionForm& form,
              std::span<const pipelines::Prompt> prompts, CompletionOptions options);

}  // namespace qkv::serve
