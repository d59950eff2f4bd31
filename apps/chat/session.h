#pragma once
// A conversation with a language model, whose keys and values are kept from turn to turn.

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "qkv/pipelines/chat.h"

namespace qkv::apps {

struct ChatSessionOptions {
  pipelines::GenerateOptions generate = {};
  pipelines::ChatTemplateOptions prompt = {};  // variables of the template
  search::StepModelOptions step_model = {};
  // After an answer, reads it on a thread, so that the next turn reads only what is new. Keys and values of
  // decoding steps are not kept, because steps sum in another order than prompts: an answer depends on the
  // conversation alone, not on how it came about.
  bool read_ahead = false;
};

struct Answer {
  enum class End {
    complete,     // by the model
    interrupted,  // by `stop`
    length,       // at max_new_tokens
    context,      // at the model's positions
  };
  std::string text;
  End end = End::complete;
  int64_t prompt_tokens = 0, reused_tokens = 0;
};

class ChatSession {
 public:
  ChatSession(std::shared_ptr<const pipelines::LoadedLanguageModel> model, ChatSessionOptions options);
  ~ChatSession() { stop_reading(); }
  ChatSession(const ChatSession&) = delete;
  ChatSession& operator=(const ChatSession&) = delete;

  using OnText = std::function<void(std::string_view)>;
  using Stop = std::function<bool()>;
  // Adds a message of the user and the answer to it, which is streamed: on_text gets each part, and `stop`
  // ends it between steps. Throws DataError for what the template refuses and for a conversation that leaves
  // the model no position, UsageError for text that is not UTF-8; the conversation is then unchanged.
  Answer ask(const std::string& text, const OnText& on_text, const Stop& stop);
  // Adds a PNG or JPEG file to the next message of the user. Throws IoError, and DataError for a damaged file
  // and for a model that reads no images.
  void add_image(const std::string& file);
  // Replaces the last answer by another one. Throws UsageError if there is none.
  Answer retry(const OnText& on_text, const Stop& stop);
  // The system message, which begins the conversation; empty: none. Throws UsageError naming the option for
  // text that is not UTF-8.
  void set_system(const char* option, const std::string& text);
  void reset();  // removes all messages but the system's

  const std::vector<pipelines::ChatMessage>& messages() const { return messages_; }

 private:
  Answer answer(const OnText& on_text, const Stop& stop);
  pipelines::Prompt prompt(std::span<const pipelines::ChatMessage> messages) const;
  void read_ahead();
  void wait_for_reading();
  void stop_reading();

  pipelines::TextGenerator generator_;
  pipelines::ChatTemplate template_;
  ChatSessionOptions options_;
  search::Engine engine_;
  std::vector<pipelines::ChatMessage> messages_;
  std::vector<pipelines::EncodedImageHandle> images_;  // of all messages, and of the next one
  std::vector<std::string> next_images_;               // files of the next message
  uint64_t answers_ = 0;
  std::thread reading_;
  std::atomic<bool> stops_reading_ = false;
};

}  // namespace qkv::apps
