#pragma once
// Questions about texts as the model reads them: in windows of the text, each a row.

#include <atomic>
#include <cstdint>
#include <vector>

#include "qkv/data/labels/questions.h"
#include "qkv/pipelines/answers/spans.h"
#include "qkv/text/tokenizer.h"
#include "qkv/train/tasks/labels/label_rows.h"

namespace qkv::train {

struct AnswerRows {
  // Its labels are the rows of the answer's first and last token in the window; of a window without the
  // answer, twice the token that stands for none, or kNoLabel if the tokenizer lacks it.
  LabelRows rows;
  std::vector<size_t> questions;                // of each window
  std::vector<pipelines::AnswerTokens> tokens;  // of each window; none for training
  int64_t unreached = 0;                        // questions whose answer is in no window

  template <class Function>
  void members(const Function& function) {
    rows.members(function);
    function(questions, tokens, unreached);
  }
};

enum class AnswerUse { training, evaluation };

// The windows of a question are neighbours. The first right answer counts. Throws DataError naming file and
// place for a question that leaves no room for its text, and for one without an answer if the tokenizer lacks
// a [CLS]; Stopped.
AnswerRows encode_answers(const data::Questions& questions, const text::Tokenizer& tokenizer,
                          const text::Windows& windows, AnswerUse use = AnswerUse::evaluation,
                          const std::atomic<bool>* stop = nullptr);

}  // namespace qkv::train
