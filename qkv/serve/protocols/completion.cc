#include "qkv/serve/protocols/completion.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "qkv/serve/protocols/json_text.h"
#include "qkv/serve/protocols/stop_texts.h"
#include "qkv/serve/work/runs.h"

namespace qkv::serve {
namespace {

// A choice while it grows. Its texts and tokens arrive on the worker's thread.
struct Choice {
  explicit Choice(const std::vector<std::string>& stop_texts) : stops(stop_texts) {}

  StopTexts stops;
  std::string text;  // shown so far, or since the last event
  std::vector<std::string> tokens;
  std::vector<float> log_probabilities;
  std::vector<int64_t> offsets;  // of each token in the text, in characters
  // The most likely tokens at each position, and the chosen one.
  std::vector<nlohmann::ordered_json> top;
  int64_t letters = 0;  // of all tokens so far, and of an echoed prompt
  std::optional<int32_t> last_id;
  bool ended = false;  // its last event has been sent
};

// Characters of UTF-8.
int64_t letters_of(std::string_view text) {
  return std::ranges::count_if(text,
                               [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; });
}

class CompletionHandler {
 public:
  CompletionHandler(ModelHandle model, ExchangeHandle exchange, std::span<const pipelines::Prompt> prompts,
                    CompletionOptions options)
      : model_(std::move(model)), exchange_(std::move(exchange)), options_(std::move(options)) {
    const bool is_list = prompts.size() > 1;
    const CallHandle call = exchange_->call(model_);
    for (size_t p = 0; p < prompts.size(); ++p) {
      call->require_wanted();
      // Tokenized once for all choices.
      const pipelines::GenerationRequest read =
          model_->pipelines().generator->prepare(prompts[p], options_.generate);
      require_result(read.generated.error, "prompt", p, is_list);
      if (options_.echo)
        echoes_.push_back(prompts[p].ids.empty() ? prompts[p].text : tokenizer().decode(prompts[p].ids));
      for (size_t j = 0; j < options_.choices; ++j) {
        prompts_.push_back({.ids = read.decode.source, .key = prompts_.size() + 1});
        choices_.emplace_back(options_.stops);
      }
    }
  }

  static void run(const std::shared_ptr<CompletionHandler>& self) {
    for (size_t i = 0; i < self->prompts_.size(); ++i) {
      Choice& choice = self->choices_[i];
      const std::vector<int32_t>& ids = self->prompts_[i].ids;
      if (self->options_.logprobs && !ids.empty()) choice.last_id = ids.back();
      if (self->options_.echo) {
        choice.text = self->echoes_[i / self->options_.choices];
        choice.letters = letters_of(choice.text);
      }
      self->prompts_[i].on_text = [&choice](std::string_view text) { choice.text += choice.stops.add(text); };
    }
    generate(
        *self->model_, self->exchange_->call(self->model_), self->prompts_, self->options_.generate,
        self->options_.top_logprobs,
        [self](size_t i, const search::NewToken& token) { return self->on_token(i, token); },
        [self](size_t i, const pipelines::Generated& result) {
          if (self->options_.stream && result.error.empty()) self->end_choice(i, result);
        },
        [self](const std::vector<pipelines::Generated>& results, const std::exception_ptr& error) {
          self->finish(results, error);
        });
  }

 private:
  const text::Tokenizer& tokenizer() const { return *model_->tokenizer(); }

  bool on_token(size_t i, const search::NewToken& token) {
    Choice& choice = choices_[i];
    if (options_.logprobs) note(choice, token);
    if (options_.stream && !choice.text.empty()) exchange_->event(dump(chunk(i, nullptr)));
    return !choice.stops.stopped();
  }

  // A token's text is what it adds to the token before it.
  std::string text_after(const std::optional<int32_t>& before, int32_t id) const {
    if (before) {
      const std::string alone = tokenizer().decode(std::vector{*before});
      std::string both = tokenizer().decode(std::vector{*before, id});
      if (both.starts_with(alone)) return both.substr(alone.size());
    }
    return tokenizer().decode(std::vector{id});
  }

  void note(Choice& choice, const search::NewToken& token) const {
    if (tokenizer().is_special(token.id)) return;
    std::string text = text_after(choice.last_id, token.id);
    ResponseJson top = ResponseJson::object();
    for (const search::TokenProbability& one : token.top) {
      std::string other = text_after(choice.last_id, one.id);
      // Special tokens have no text; two tokens may have the same.
      if (other.empty()) other = std::string(tokenizer().token(one.id).value_or(""));
      if (!top.contains(other)) top[other] = one.log_probability;
    }
    top[text] = token.log_probability;
    choice.top.push_back(std::move(top));
    choice.last_id = token.id;
    choice.offsets.push_back(choice.letters);
    choice.letters += letters_of(text);
    choice.tokens.push_back(std::move(text));
    choice.log_probabilities.push_back(token.log_probability);
  }

  // The choice's text since the last event, as the JSON of a choice.
  ResponseJson take(size_t i, const char* finish_reason) {
    Choice& choice = choices_[i];
    ResponseJson logprobs;
    if (options_.logprobs) {
      logprobs = {{"tokens", std::exchange(choice.tokens, {})},
                  {"token_logprobs", std::exchange(choice.log_probabilities, {})},
                  {"top_logprobs", std::exchange(choice.top, {})},
                  {"text_offset", std::exchange(choice.offsets, {})}};
    }
    return {{"text", std::exchange(choice.text, {})},
            {"index", i},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", finish_reason ? ResponseJson(finish_reason) : ResponseJson(nullptr)}};
  }

  ResponseJson object(ResponseJson choices) const {
    return {{"id", concat("cmpl-", exchange_->request_id())},
            {"object", "text_completion"},
            {"created", created_},
            {"model", options_.model},
            {"choices", std::move(choices)}};
  }
  ResponseJson chunk(size_t i, const char* finish_reason) {
    return object(ResponseJson::array({take(i, finish_reason)}));
  }

  const char* finish_reason(size_t i, const pipelines::Generated& result) {
    const bool complete = result.completions.at(0).hypothesis.complete;
    return complete || choices_[i].stops.stopped() ? "stop" : "length";
  }

  // The last event of a choice, while others may go on.
  void end_choice(size_t i, const pipelines::Generated& result) {
    Choice& choice = choices_[i];
    if (std::exchange(choice.ended, true)) return;
    choice.text += choice.stops.finish();
    exchange_->event(dump(chunk(i, finish_reason(i, result))));
  }

  void finish(const std::vector<pipelines::Generated>& results, const std::exception_ptr& error) {
    exchange_->answer(error, [&] {
      int64_t prompt_tokens = 0, new_tokens = 0;
      ResponseJson choices = ResponseJson::array();
      for (size_t i = 0; i < results.size(); ++i) {
        require_result(results[i].error, "prompt", i / options_.choices, results.size() > options_.choices);
        const search::Hypothesis& hypothesis = results[i].completions.at(0).hypothesis;
        if (i % options_.choices == 0) prompt_tokens += results[i].prompt_tokens;
        new_tokens += std::ssize(hypothesis.ids);
        if (options_.stream) {
          end_choice(i, results[i]);
        } else {
          choices_[i].text += choices_[i].stops.finish();
          choices.push_back(take(i, finish_reason(i, results[i])));
        }
      }
      const ResponseJson usage{{"prompt_tokens", prompt_tokens},
                               {"completion_tokens", new_tokens},
                               {"total_tokens", prompt_tokens + new_tokens}};
      if (options_.stream) {
        if (options_.stream_usage) {
          ResponseJson last = object(ResponseJson::array());
          last["usage"] = usage;
          exchange_->event(dump(last));
        }
        exchange_->event("[DONE]");
        return exchange_->end_events();
      }
      ResponseJson whole = object(std::move(choices));
      whole["usage"] = usage;
      exchange_->send_json(dump(whole));
    });
  }

  ModelHandle model_;
  ExchangeHandle exchange_;
  CompletionOptions options_;
  int64_t created_ =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  std::vector<std::string> echoes_;         // of each prompt, if wanted
  std::vector<pipelines::Prompt> prompts_;  // of each choice
  std::vector<Choice> choices_;
};

}  // namespace

void complete(const ModelHandle& model, const ExchangeHandle& exchange,
              std::span<const pipelines::Prompt> prompts, CompletionOptions options) {
  CompletionHandler::run(std::make_shared<CompletionHandler>(model, exchange, prompts, std::move(options)));
}

}  // namespace qkv::serve
