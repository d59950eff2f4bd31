#pragma once
// Extractive question answering (Rajpurkar et al. 2016, "SQuAD"): the span of a text that answers a question.

#include <memory>
#include <optional>
#include <string>

#include "qkv/base/option_field.h"
#include "qkv/pipelines/text_encoder.h"

namespace qkv::pipelines {

struct AnswerTokens;  // spans.h

struct AnswerOptions {
  int64_t top = 1;                 // answers of a text, most likely first
  int64_t max_answer_tokens = 15;  // of an answer
  // Whether a text may have no answer, which is then the empty answer: of models trained with such questions
  // (Rajpurkar et al. 2018, "SQuAD 2.0").
  bool unanswerable = false;
  // A text that is too long is read in windows, whose answers compete.
  int64_t window = 0;    // tokens of question and text together; 0: the folder's limit, at most 384
  int64_t shared = 128;  // tokens of the text in a window and the next one; at most half

  template <class Self, class Visit>
  static void visit_fields(Self&& self, const Visit& visit) {
    visit({"top", "N", "Answers of a text, most likely first", at_least(1)}, self.top);
    visit({"max_answer_tokens", "TOKENS",
           "Maximum tokens of an answer, before it is completed to whole words", between(1, 1000)},
          self.max_answer_tokens);
    visit({"unanswerable", "",
           "A text may lack the answer, which is then empty; for models trained so (SQuAD 2.0)"},
          self.unanswerable);
    visit({"window", "TOKENS",
           "Tokens of question and text read at once, longer texts in several windows; 0: the model's limit, "
           "at "
           "most 384",
           at_least(0)},
          self.window);
    visit({"shared", "TOKENS", "Tokens of a text in a window and the next one; at most half", at_least(0)},
          self.shared);
  }
};

struct Answer {
  std::string text;           // whole words, as in the text; empty: the text has no answer
  size_t begin = 0, end = 0;  // byte range in the text
  // In its window: of its first token times that of its last one, for all places of its text.
  float probability = 0;
};

struct AnsweredText {
  std::vector<Answer> answers;  // of different texts, most likely first
  std::string error = {};       // why there is no result; empty on success
};

// Tokens of a window: `wanted`, or if that is 0 the model's limit, at most 384. Throws UsageError naming
// `setting` for more than the limit.
int64_t answer_window(const char* setting, int64_t wanted, std::optional<int64_t> limit);

// Why a question cannot be asked: its tokens leave no room in a window of this many.
std::string long_question(const text::Tokenizer& tokenizer, std::string_view question, int64_t window);

struct QuestionedText {
  std::string question, text;
};

// One window of a text.
struct AnswerRequest : EncoderRequest {
  std::shared_ptr<const std::string> text = {};
  std::shared_ptr<const AnswerTokens> tokens = {};
  AnswerOptions options = {};
};

class QuestionAnswerer : public TextEncoderPipeline {
 public:
  // Throws DataError for a model without a question answering head, and the errors of open_text_encoder().
  explicit QuestionAnswerer(std::shared_ptr<const LoadedTextEncoder> encoder);
  explicit QuestionAnswerer(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  // At least one window; a single one with an error. Throws UsageError for an option out of range, a
  // window beyond the model's positions, and `unanswerable` if no token stands for that.
  std::vector<AnswerRequest> prepare(std::string_view question, std::string_view text,
                                     const AnswerOptions& options = {}) const;
  // Of one window. hidden: [tokens, d_model], from encode().
  AnsweredText finish(const AnswerRequest& request, const Tensor& hidden) const;
  // The answers of a text from those of its windows.
  static AnsweredText merged(std::span<const AnsweredText> windows, const AnswerOptions& options);

  std::vector<AnsweredText> operator()(std::span<const QuestionedText> items,
                                       const AnswerOptions& options = {},
                                       int64_t batch_tokens = kEncoderBatchTokens) const;

 private:
  int64_t window_;  // AnswerOptions::window by default
};

}  // namespace qkv::pipelines
