#pragma once
// Completions in OpenAI's form: choices, stop texts, log-probabilities, streaming.

#include <span>
#include <string>
#include <vector>

#include "qkv/pipelines/generate.h"
#include "qkv/serve/protocols/exchange.h"

namespace qkv::serve {

struct CompletionOptions {
  std::string model;
  pipelines::GenerateOptions generate;
  size_t choices = 1;              // of each prompt; choice j of prompt i has key i * choices + j + 1
  std::vector<std::string> stops;  // a choice ends before the first of these texts
  bool echo = false;               // choices begin with the prompt
  bool stream = false, stream_usage = false;
  bool logprobs = false;     // of the chosen tokens, and with echo of the prompt's
  int top_logprobs = 0;      // most likely tokens beside each chosen one
  bool prompt_only = false;  // nothing is generated
};

// Answers the exchange. Throws before anything is sent, such as HttpError (400) for a prompt that the model
// cannot read.
void complete(const ModelHandle& model, const ExchangeHandle& exchange,
              std::span<const pipelines::Prompt> prompts, CompletionOptions options);

}  // namespace qkv::serve
