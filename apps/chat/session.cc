#include "apps/chat/session.h"

#include <algorithm>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/thread.h"
#include "qkv/data/image.h"
#include "qkv/nn/decoder.h"
#include "qkv/pipelines/checks.h"
#include "qkv/search/language.h"

namespace qkv::apps {
namespace {

using pipelines::ChatMessage;

// Room for the keys and values of one conversation as long as the model's positions.
search::EngineOptions engine_options(const models::LanguageModel& model, DType dtype) {
  const models::LanguageModelConfig& config = model.config();
  return {.prefix_bytes = nn::cache_bytes(config.decoder, {.prompt = config.max_positions}, 0, dtype,
                                          model.logits().device()),
          .prefill_tokens = 256};  // Ctrl-C takes effect between steps
}

}  // namespace

ChatSession::ChatSession(std::shared_ptr<const pipelines::LoadedLanguageModel> model,
                         ChatSessionOptions options)
    : generator_(std::move(model)),
      template_(generator_.model().folder, generator_.model().tokenizer),
      options_(std::move(options)),
      engine_(generator_.make_engine(
          engine_options(*generator_.model().model, options_.step_model.cache_dtype), options_.step_model)) {}

pipelines::Prompt ChatSession::prompt(std::span<const ChatMessage> messages) const {
  return {.text = template_.render(messages, options_.prompt),
          .images = {images_.begin(), images_.end() - std::ssize(next_images_)},
          .special_tokens = false};
}

Answer ChatSession::answer(const OnText& on_text, const Stop& stop) {
  wait_for_reading();
  Answer answer;
  pipelines::Prompt next = prompt(messages_);
  next.key = answers_++;
  const int64_t positions = generator_.model().model->config().max_positions;
  next.on_text = [&](std::string_view text) {
    answer.text += text;
    on_text(text);
  };
  pipelines::GenerationRequest request = generator_.prepare(next, options_.generate);
  answer.prompt_tokens = request.generated.prompt_tokens;
  if (answer.prompt_tokens > positions) {
    throw DataError(concat("the conversation takes ", answer.prompt_tokens, " tokens, more than the ",
                           positions, " that the model can read"));
  }
  if (request.done()) throw DataError(request.generated.error);
  const int64_t limit = request.decode.options.max_new_tokens;
  const uint64_t id = engine_.submit(request.decode);
  search::Decoded decoded;
  while (!engine_.idle()) {
    if (stop()) engine_.cancel(id);
    for (search::Decoded& one : engine_.step()) decoded = std::move(one);
  }
  if (decoded.error) std::rethrow_exception(decoded.error);
  answer.reused_tokens = decoded.reused_tokens;
  if (decoded.cancelled) {
    answer.end = Answer::End::interrupted;
  } else {
    const pipelines::Generated found = generator_.finish(std::move(request), std::move(decoded));
    if (!found.error.empty()) throw DataError(found.error);
    if (!found.completions.empty() && !found.completions.front().hypothesis.complete) {
      answer.end = answer.prompt_tokens + limit >= positions ? Answer::End::context : Answer::End::length;
    }
  }
  messages_.push_back({.role = "assistant", .content = answer.text});
  if (options_.read_ahead) read_ahead();
  return answer;
}

Answer ChatSession::ask(const std::string& text, const OnText& on_text, const Stop& stop) {
  messages_.push_back(next_images_.empty() ? ChatMessage{.role = "user", .content = text}
                                           : pipelines::message_with_images(text, next_images_));
  std::vector<std::string> files = std::exchange(next_images_, {});
  try {
    return answer(on_text, stop);
  } catch (...) {
    messages_.pop_back();
    next_images_ = std::move(files);
    throw;
  }
}

void ChatSession::add_image(const std::string& file) {
  images_.push_back(generator_.image(data::read_image_file(file), file));
  next_images_.push_back(file);
}

Answer ChatSession::retry(const OnText& on_text, const Stop& stop) {
  if (messages_.empty() || messages_.back().role != "assistant")
    throw UsageError("expected an answer to replace, found none");
  const ChatMessage last = std::move(messages_.back());
  messages_.pop_back();
  try {
    return answer(on_text, stop);
  } catch (...) {
    messages_.push_back(last);
    throw;
  }
}

void ChatSession::set_system(const char* option, const std::string& text) {
  pipelines::require_text(option, text);
  if (!messages_.empty() && messages_.front().role == "system") messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), {.role = "system", .content = text});
}

void ChatSession::reset() {
  stop_reading();
  std::erase_if(messages_, [](const ChatMessage& message) { return message.role != "system"; });
  images_.clear();
  next_images_.clear();
}

// Reads what the next prompt begins with, whatever the user writes: what two prompts have in common.
void ChatSession::read_ahead() {
  search::Request request;
  try {
    std::vector<ChatMessage> messages = messages_;
    messages.push_back({.role = "user", .content = "a"});
    request = generator_.prepare(prompt(messages), options_.generate).decode;
    messages.back().content = "b";
    const std::vector<int32_t> other = generator_.prepare(prompt(messages), options_.generate).decode.source;
    std::vector<int32_t>& ids = request.source;
    ids.erase(std::ranges::mismatch(ids, other).in1, ids.end());
  } catch (const Error&) {
    return;  // a template that refuses it will say so in the next turn
  }
  // All images come before, but those that the template omits.
  const auto rows = std::ranges::count_if(request.source, [](int32_t id) { return id < 0; });
  if (rows != request.rows.count() || (rows > 0 && request.source.back() < 0)) return;
  request.options = search::language_defaults();
  request.options.max_new_tokens = 1;
  if (request.source.empty() ||
      std::ssize(request.source) >= generator_.model().model->config().max_positions)
    return;
  const uint64_t id = engine_.submit(search::fitting(*generator_.model().model, std::move(request)));
  stops_reading_ = false;
  reading_ = start_thread([this, id] {
    while (!engine_.idle()) {
      if (stops_reading_) engine_.cancel(id);
      engine_.step();  // an error fails the request, and the next turn reads its prompt itself
    }
  });
}

void ChatSession::wait_for_reading() {
  if (reading_.joinable()) reading_.join();
}

void ChatSession::stop_reading() {
  stops_reading_ = true;
  wait_for_reading();
}

}  // namespace qkv::apps
