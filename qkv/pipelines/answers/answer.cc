#include "qkv/pipelines/answers/answer.h"

#include <algorithm>
#include <unordered_map>

#include "qkv/base/error.h"
#include "qkv/pipelines/answers/spans.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/row_results.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"
#include "qkv/text/lines.h"

namespace qkv::pipelines {
int64_t answer_window(const char* setting, int64_t wanted, std::optional<int64_t> limit) {
  // transformers' default. Models of SQuAD are trained on windows of this length.
  constexpr int64_t kUsual = 384;
  if (limit && wanted > *limit) {
    throw UsageError(
        concat(setting, ": expected at most ", *limit, " tokens (the model's limit), found ", wanted));
  }
  return wanted > 0 ? wanted : std::min(limit.value_or(kUsual), kUsual);
}

std::string long_question(const text::Tokenizer& tokenizer, std::string_view question, int64_t window) {
  return concat("question: expected at most ", window - 1, " tokens with the special ones, as a window has ",
                window, ", found ", tokenizer.encode(question, "").ids.size());
}

QuestionAnswerer::QuestionAnswerer(std::shared_ptr<const LoadedTextEncoder> encoder)
    : TextEncoderPipeline(std::move(encoder)) {
  require_head(model().config().labelled == models::ClassificationTarget::spans, this->encoder()->folder,
               "a question answering");
  window_ =
      answer_window("window", 0, max_text_length(this->encoder()->folder, model().config(), tokenizer()));
}

QuestionAnswerer::QuestionAnswerer(const std::filesystem::path& folder, const models::LoadOptions& options)
    : QuestionAnswerer(open_text_encoder(folder, options)) {}

std::vector<AnswerRequest> QuestionAnswerer::prepare(std::string_view question, std::string_view text,
                                                     const AnswerOptions& options) const {
  require_ranges(options);
  const int64_t window =
      options.window > 0 ? answer_window("window", options.window, model().config().max_positions) : window_;
  const auto failed = [](std::string error) { return std::vector<AnswerRequest>{{{{}, std::move(error)}}}; };
  for (const auto& [name, one] : {std::pair("question: ", question), {"", text}}) {
    if (const std::string error = text_error(one); !error.empty()) return failed(concat(name, error));
    if (text::is_blank(one)) return failed(concat(name, "expected text, found none"));
  }
  std::vector<text::EncodedWindow> windows;
  try {
    windows = tokenizer().encode_windows(question, text, {.max_length = window, .shared = options.shared});
  } catch (const UsageError& error) {  // too many, of this text
    return failed(error.what());
  }
  if (windows.empty()) return failed(long_question(tokenizer(), question, window));
  std::vector<AnswerTokens> tokens = answer_tokens(windows, text, tokenizer().special_tokens().cls);
  if (tokens.front().rows.empty()) return failed("expected text, found none");
  if (options.unanswerable && !tokens.front().none) {
    throw UsageError(
        "unanswerable: expected a tokenizer that adds a [CLS] token, which stands for no answer, found none");
  }
  const auto shared_text = std::make_shared<const std::string>(text);
  std::vector<AnswerRequest> requests;
  for (size_t w = 0; w < windows.size(); ++w) {
    requests.push_back({checked(std::move(windows[w].encoding)), shared_text,
                        std::make_shared<const AnswerTokens>(std::move(tokens[w])), options});
    if (!requests.back().error.empty()) return failed(requests.back().error);
  }
  return requests;
}

AnsweredText QuestionAnswerer::finish(const AnswerRequest& request, const Tensor& hidden) const {
  require_encoded(request, hidden, model().config().embedding.d_model);
  if (!request.text || !request.tokens)
    throw UsageError("answer: expected a request of prepare(), found one without a text");
  const Tensor logits = finite_logits(model().classifier_logits(hidden, Offsets::uniform(1, hidden.rows())));
  const AnswerOptions& options = request.options;
  const LikelyRanges found =
      likely_ranges(logits, *request.tokens, *request.text, options.top, options.max_answer_tokens);
  AnsweredText result;
  for (const auto& [bytes, probability] : found.ranges) {
    result.answers.push_back({.text = request.text->substr(bytes.begin, bytes.end - bytes.begin),
                              .begin = bytes.begin,
                              .end = bytes.end,
                              .probability = static_cast<float>(probability)});
  }
  if (options.unanswerable && found.none)
    result.answers.push_back({.text = {}, .probability = static_cast<float>(*found.none)});
  return result;
}

AnsweredText QuestionAnswerer::merged(std::span<const AnsweredText> windows, const AnswerOptions& options) {
  std::vector<Answer> best;
  std::unordered_map<std::string_view, size_t> places;  // of texts, in `best`
  for (const AnsweredText& window : windows) {
    if (!window.error.empty()) return {.answers = {}, .error = window.error};
    for (const Answer& answer : window.answers) {
      const auto [place, added] = places.emplace(answer.text, best.size());
      if (added) {
        best.push_back(answer);
        continue;
      }
      // A window without the answer is certain that there is none: the least certain one decides.
      Answer& known = best[place->second];
      if (answer.text.empty() ? answer.probability < known.probability
                              : answer.probability > known.probability)
        known = answer;
    }
  }
  std::ranges::stable_sort(best, std::greater(), &Answer::probability);
  if (std::ssize(best) > options.top) best.resize(static_cast<size_t>(options.top));
  return {.answers = std::move(best)};
}

std::vector<AnsweredText> QuestionAnswerer::operator()(std::span<const QuestionedText> items,
                                                       const AnswerOptions& options,
                                                       int64_t batch_tokens) const {
  return run_parts(
      items.size(), batch_tokens,
      [&](size_t i) { return prepare(items[i].question, items[i].text, options); },
      [this](const AnswerRequest& request, const Tensor& hidden) { return finish(request, hidden); },
      [&](std::span<const AnsweredText> windows) { return merged(windows, options); });
}

}  // namespace qkv::pipelines
