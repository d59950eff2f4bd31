#include "qkv/serve/protocols/completion.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "qkv/pipelines/output_grammars.h"
#include "qkv/search/language.h"
#include "qkv/serve/protocols/stop_texts.h"
#include "qkv/serve/work/runs.h"

namespace qkv::serve {
namespace {

// The special tokens that are in texts, ascending.
std::span<const int32_t> spelled(const CompletionOptions& options) {
  if (options.generate.grammar) return options.generate.grammar->spelled;
  return {};
}

// A choice while it grows. Its texts and tokens arrive on the worker's thread.
struct Choice {
  Choice(const CompletionOptions& options, const text::Tokenizer& tokenizer)
      : stops(options.stops),
        reader(options.calls),
        decoder(tokenizer, {.skip_special_tokens = spelled(options).empty()}) {}

  void add(std::string_view piece) {
    const std::string certain = stops.add(piece);
    text += reader ? reader->add(certain, calls) : certain;
  }
  void finish() {
    const std::string rest = stops.finish();
    text += reader ? reader->add(rest, calls) : rest;
    if (reader) text += reader->finish();
  }

  StopTexts stops;
  std::optional<pipelines::CallReader> reader;  // of calls, if they may come
  std::string text;                             // shown so far, or since the last event
  std::vector<pipelines::ToolCall> calls;       // likewise
  size_t past_calls = 0;                        // in earlier events
  // With logprobs: what each token adds to the text. The last token of a character has it, others have none.
  text::StreamDecoder decoder;
  std::vector<ChoiceToken> tokens;
  int64_t letters = 0;  // of all tokens so far
  std::optional<int32_t> last_id;
  bool opened = false, ended = false;  // its first and its last event have been sent
};

// Characters of UTF-8.
int64_t letters_of(std::string_view text) {
  return std::ranges::count_if(text,
                               [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; });
}

// Nine characters, as Mistral's templates require; of the same request another one each time.
std::string call_id(const std::string& request) {
  static std::atomic<uint64_t> count = 0;
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  uint64_t number = std::hash<std::string>()(concat(request, ' ', now, ' ', count++));
  std::string id(9, '0');
  for (char& digit : id) {
    digit = "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36];
    number /= 36;
  }
  return id;
}

// Tokens of all prompts, each as often as it has choices.
constexpr size_t kMaxPromptTokens = 1 << 20;

class CompletionHandler {
 public:
  CompletionHandler(ModelHandle model, ExchangeHandle exchange, const CompletionForm& form,
                    std::span<const pipelines::Prompt> prompts, CompletionOptions options)
      : model_(std::move(model)), exchange_(std::move(exchange)), form_(form), options_(std::move(options)) {
    const bool is_list = prompts.size() > 1;
    const CallHandle call = exchange_->call(model_);
    size_t tokens = 0;
    for (size_t p = 0; p < prompts.size(); ++p) {
      call->require_wanted();
      // Tokenized once for all choices.
      const pipelines::GenerationRequest read =
          model_->pipelines().generator->prepare(prompts[p], options_.generate);
      require_result(read.generated.error, form_.prompt, p, is_list);
      tokens += read.decode.source.size() * options_.choices;
      if (tokens > kMaxPromptTokens) {
        throw HttpError(400, concat(form_.prompt, ": expected at most ", kMaxPromptTokens,
                                    " tokens, those of a prompt for each of its choices, found more"));
      }
      if (options_.echo)
        echoes_.push_back(prompts[p].ids.empty() ? prompts[p].text : tokenizer().decode(prompts[p].ids));
      for (size_t j = 0; j < options_.choices; ++j) {
        prompts_.push_back({.ids = read.decode.source, .rows = read.decode.rows, .key = prompts_.size() + 1});
        choices_.emplace_back(options_, tokenizer());
      }
    }
  }

  static void run(const std::shared_ptr<CompletionHandler>& self) {
    if (!self->options_.echo || !self->options_.logprobs) return begin(self);
    self->model_->serial().submit(
        self->exchange_->call(self->model_),
        {.run =
             [self] {
               for (size_t p = 0; p < self->echoes_.size(); ++p) self->score_prompt(p);
               begin(self);
             },
         .on_failed = [self](const std::exception_ptr& error) { self->exchange_->fail(error); }});
  }

 private:
  const text::Tokenizer& tokenizer() const { return *model_->tokenizer(); }

  // Generates, with the text of the prompt if it is wanted.
  static void begin(const std::shared_ptr<CompletionHandler>& self) {
    for (size_t i = 0; i < self->prompts_.size(); ++i) {
      Choice& choice = self->choices_[i];
      const std::vector<int32_t>& ids = self->prompts_[i].ids;
      if (self->options_.echo && !self->options_.logprobs)
        choice.text = self->echoes_[i / self->options_.choices];
      if (self->options_.logprobs && !self->options_.echo) {
        choice.decoder.skip(ids);
        if (!ids.empty()) choice.last_id = ids.back();
      }
      self->prompts_[i].on_text = [&choice](std::string_view text) { choice.add(text); };
    }
    if (self->options_.prompt_only) return self->finish_without_tokens();
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

  // The tokens of a prompt, with their log-probabilities, begin each of its choices. They concatenate to its
  // text unless the tokenizer changes it.
  void score_prompt(size_t prompt) {
    exchange_->call(model_)->require_wanted();
    const size_t first = prompt * options_.choices;
    const std::vector<int32_t>& ids = prompts_[first].ids;
    const search::TokenScores scores =
        search::score_with_top(*model_->pipelines().generator->model().model, ids, options_.top_logprobs);
    for (const float one : scores.log_probabilities) {
      if (std::isnan(one)) throw NumericError("model: expected finite log-probabilities, found NaN");
    }
    Choice& choice = choices_[first];
    for (size_t t = 0; t < ids.size(); ++t) {
      if (t == 0) {
        note(choice, {.id = ids[t], .log_probability = std::numeric_limits<float>::quiet_NaN()});
        choice.tokens.back().given = true;
      } else {
        note(choice,
             {.id = ids[t], .log_probability = scores.log_probabilities[t - 1], .top = scores.top[t - 1]});
      }
    }
    for (const ChoiceToken& token : choice.tokens) choice.text += token.text;
    // The end of the text may be incomplete yet.
    text::StreamDecoder end = choice.decoder;
    if (choice.text + end.finish() != echoes_[prompt]) choice.text = echoes_[prompt];
    for (size_t j = 1; j < options_.choices; ++j) choices_[first + j] = choice;
  }

  // The text of an incomplete character, which the last token gets.
  static std::string end_tokens(Choice& choice) {
    std::string rest = choice.decoder.finish();
    if (!choice.tokens.empty()) choice.tokens.back().text += rest;
    return rest;
  }

  // Answers a request for no new tokens.
  void finish_without_tokens() {
    std::vector<pipelines::Generated> results(prompts_.size());
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].prompt_tokens = std::ssize(prompts_[i].ids);
      results[i].completions.emplace_back().hypothesis.complete = false;
      if (options_.logprobs && options_.echo) choices_[i].text += end_tokens(choices_[i]);
    }
    finish(results, nullptr);
  }

  bool on_token(size_t i, const search::NewToken& token) {
    Choice& choice = choices_[i];
    if (options_.logprobs &&
        (!tokenizer().is_special(token.id) || std::ranges::binary_search(spelled(options_), token.id)))
      note(choice, token);
    if (options_.stream) {
      open(i);
      if (!choice.text.empty() || !choice.calls.empty()) send_event(i, nullptr);
    }
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
    ChoiceToken noted{.id = token.id,
                      .text = choice.decoder.add(token.id),
                      .log_probability = token.log_probability,
                      .offset = choice.letters};
    for (const search::TokenProbability& one : token.top) {
      LikelyToken likely{one.id, {}, one.log_probability};
      if (one.id != token.id) likely.text = text_after(choice.last_id, one.id);
      if (likely.text.empty()) likely.text = tokenizer().token(one.id).value_or("");
      noted.top.push_back(std::move(likely));
    }
    choice.last_id = token.id;
    choice.letters += letters_of(noted.text);
    choice.tokens.push_back(std::move(noted));
  }

  // What the choice has gained since the last event.
  ChoicePart take(size_t i, const char* finish_reason) {
    Choice& choice = choices_[i];
    ChoicePart part{.index = i,
                    .text = std::exchange(choice.text, {}),
                    .logprobs = options_.logprobs,
                    .tokens = std::exchange(choice.tokens, {}),
                    .calls = std::exchange(choice.calls, {}),
                    .first_call = choice.past_calls,
                    .finish_reason = finish_reason};
    for (pipelines::ToolCall& call : part.calls) call.id = call_id(exchange_->request_id());
    choice.past_calls += part.calls.size();
    return part;
  }

  ResponseJson object(ResponseJson choices) const {
    ResponseJson whole{{"id", concat(form_.id_prefix, exchange_->request_id())},
                       {"object", options_.stream ? form_.event : form_.object},
                       {"created", created_},
                       {"model", options_.model}};
    if (const auto& sampling = options_.generate.search.sampling) whole["seed"] = sampling->seed;
    whole["choices"] = std::move(choices);
    return whole;
  }
  void send_event(size_t i, const char* finish_reason) {
    exchange_->event(dump(object(ResponseJson::array({form_.delta(take(i, finish_reason))}))));
  }
  // The first event of a choice, if the form has one.
  void open(size_t i) {
    if (form_.opening == nullptr || std::exchange(choices_[i].opened, true)) return;
    exchange_->event(dump(object(ResponseJson::array({form_.opening(i)}))));
  }

  const char* finish_reason(size_t i, const pipelines::Generated& result) {
    const Choice& choice = choices_[i];
    if (!result.completions.at(0).hypothesis.complete && !choice.stops.stopped()) return "length";
    return choice.past_calls + choice.calls.size() > 0 ? "tool_calls" : "stop";
  }

  // The last event of a choice, while others may go on.
  void end_choice(size_t i, const pipelines::Generated& result) {
    Choice& choice = choices_[i];
    if (std::exchange(choice.ended, true)) return;
    choice.finish();
    end_tokens(choice);
    open(i);
    send_event(i, finish_reason(i, result));
  }

  void finish(const std::vector<pipelines::Generated>& results, const std::exception_ptr& error) {
    exchange_->answer(error, [&] {
      int64_t prompt_tokens = 0, cached_tokens = 0, new_tokens = 0;
      ResponseJson choices = ResponseJson::array();
      for (size_t i = 0; i < results.size(); ++i) {
        require_result(results[i].error, form_.prompt, i / options_.choices,
                       results.size() > options_.choices);
        const search::Hypothesis& hypothesis = results[i].completions.at(0).hypothesis;
        if (i % options_.choices == 0) {
          prompt_tokens += results[i].prompt_tokens;
          cached_tokens += results[i].reused_tokens;
        }
        new_tokens += std::ssize(hypothesis.ids);
        if (options_.stream) {
          end_choice(i, results[i]);
        } else {
          choices_[i].finish();
          end_tokens(choices_[i]);
          choices.push_back(form_.choice(take(i, finish_reason(i, results[i]))));
        }
      }
      ResponseJson usage{{"prompt_tokens", prompt_tokens},
                         {"completion_tokens", new_tokens},
                         {"total_tokens", prompt_tokens + new_tokens}};
      if (form_.cached_tokens) usage["prompt_tokens_details"] = {{"cached_tokens", cached_tokens}};
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
  const CompletionForm& form_;
  CompletionOptions options_;
  int64_t created_ =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  std::vector<std::string> echoes_;         // of each prompt, if wanted
  std::vector<pipelines::Prompt> prompts_;  // of each choice
  std::vector<Choice> choices_;
};

}  // namespace

void complete(const ModelHandle& model, const ExchangeHandle& exchange, const CompletionForm& form,
              std::span<const pipelines::Prompt> prompts, CompletionOptions options) {
  CompletionHandler::run(
      std::make_shared<CompletionHandler>(model, exchange, form, prompts, std::move(options)));
}

}  // namespace qkv::serve
