// OpenAI's completions of texts: /v1/completions.

#include <utility>

#include "qkv/serve/protocols/openai_fields.h"
#include "qkv/serve/service.h"

namespace qkv::serve {
namespace {

OptionsInRequest completion_names() {
  static const std::vector<OptionInRequest> kNames = request_limits(
      {{"max_new_tokens",
        {.name = "max_tokens",
         .help = "0: nothing is generated",
         .otherwise = "16",
         .range = between(0, 1 << 20)}},
       {"min_new_tokens", {.name = "min_tokens", .otherwise = "0", .range = between(0, 1 << 20)}},
       {"temperature", {.help = "0: greedy search", .range = between(0, 100)}}});
  return kNames;
}

// The most likely tokens by their text, beside the chosen one. Two tokens may have the same text.
ResponseJson top_of(const ChoiceToken& token) {
  if (token.given) return nullptr;
  ResponseJson top = ResponseJson::object();
  for (const LikelyToken& one : token.top) {
    if (one.id != token.id && !top.contains(one.text)) top[one.text] = one.log_probability;
  }
  top[token.text] = token.log_probability;
  return top;
}

ResponseJson text_choice(ChoicePart part) {
  ResponseJson logprobs;
  if (part.logprobs) {
    logprobs = {{"tokens", ResponseJson::array()},
                {"token_logprobs", ResponseJson::array()},
                {"top_logprobs", ResponseJson::array()},
                {"text_offset", ResponseJson::array()}};
    for (const ChoiceToken& token : part.tokens) {
      logprobs["tokens"].push_back(token.text);
      logprobs["token_logprobs"].push_back(token.log_probability);
      logprobs["top_logprobs"].push_back(top_of(token));
      logprobs["text_offset"].push_back(token.offset);
    }
  }
  return {{"text", std::move(part.text)},
          {"index", part.index},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", part.finish_reason ? ResponseJson(part.finish_reason) : ResponseJson(nullptr)}};
}

constexpr CompletionForm kTextForm{.id_prefix = "cmpl-",
                                   .object = "text_completion",
                                   .event = "text_completion",
                                   .prompt = "prompt",
                                   .cached_tokens = false,
                                   .choice = text_choice,
                                   .delta = text_choice,
                                   .opening = nullptr};

void complete_text(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find(fields.text("model"), "generate");
  CompletionOptions options;
  options.model = model->name();
  options.generate.search = model->pipelines().generator->default_options().search;
  read_completion_fields(fields, completion_names(), {}, options);
  search::SearchOptions& search = options.generate.search;
  require_min_tokens(search);
  const std::vector<pipelines::Prompt> given = prompts_of(fields.required("prompt"));
  if (given.size() * options.choices > Fields::kMaxTexts) {
    throw HttpError(400, concat("n: expected at most ", Fields::kMaxTexts, " choices in all, found ",
                                given.size(), " prompts with ", options.choices, " each"));
  }
  options.echo = fields.boolean("echo");
  if (const auto logprobs = fields.integer("logprobs")) {
    options.logprobs = true;
    options.top_logprobs = static_cast<int>(*logprobs);
  }
  if (const auto best_of = fields.integer("best_of");
      best_of && *best_of != static_cast<int64_t>(options.choices)) {
    throw HttpError(400, concat("best_of: expected n or none, as it is not supported, found ", *best_of));
  }
  require_absent(fields, "suffix");
  fields.done();
  if (search.max_new_tokens == 0) {
    options.prompt_only = true;
    search.max_new_tokens = 1;  // the least of a search
  }
  complete(model, exchange, kTextForm, given, std::move(options));
}

}  // namespace

Route text_completions_route() {
  RequestFields fields = completion_fields(completion_names(), false);
  fields.insert(fields.begin() + 1, required("prompt", kPrompt));
  fields.insert(fields.end(),
                {whole("best_of", between(1, 128), "Equal to n"), whole("logprobs", between(0, 5)),
                 flag("echo"), optional("suffix", "string(..0)", kUnsupported)});
  return post(
      "/v1/completions", complete_text, "Continue prompts.", std::move(fields),
      R"({id: string, object: "text_completion", created: integer, model: string, seed?: integer(0..) 'Of sampling.',
  choices: [{text: string, index: integer(0..), finish_reason: "stop" | "length",
    logprobs: {tokens: [string], token_logprobs: [number | null], text_offset: [integer(0..)],
      top_logprobs: [{*: number} | null]} | null}],
  usage: Usage})",
      {.streams = true});
}

}  // namespace qkv::serve
