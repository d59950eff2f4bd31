// qkv train answer, qkv evaluate answer

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/messages.h"
#include "apps/tasks/evaluations.h"
#include "apps/tasks/labels.h"
#include "apps/terminal.h"
#include "apps/training_task.h"
#include "qkv/base/error.h"
#include "qkv/pipelines/answers/answer.h"
#include "qkv/pipelines/open_model.h"
#include "qkv/pipelines/row_results.h"
#include "qkv/train/tasks/answers/answer.h"
#include "qkv/train/tasks/answers/answer_scores.h"

namespace qkv::apps {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kEvaluationTokens = 4096;

constexpr const char* kAnswerFooter = R"(Example:
  qkv train answer --train train-v2.0.json --valid dev-v2.0.json --from bert-base-uncased --out model
  qkv evaluate answer model --test dev-v2.0.json
  qkv answer model --question "Where does Ada live?" "Ada lives in Berlin."

The files are SQuAD's (1.1 or 2.0), or JSON lines: {"question", "context", "answers": {"text": [...],
"answer_start": [...]}}; answer_start counts characters. A text is read in windows, with its question; a window
without the answer has the answer none, which is the [CLS] token. With --from, defaults are those of
fine-tuning: a learning rate of 5e-5 that falls linearly, 3 epochs. The sizes and the tokenizer are the
folder's. DIR is a model folder that qkv answer and Hugging Face transformers open.)";

struct AnswerArguments {
  EvaluationArguments common;
  train::AnswerSettings settings;
  int64_t window = 0;
};

ordered_json json_of(const train::AnswerScores& scores, const train::AnswerRows& rows) {
  ordered_json out{{"questions", scores.all.questions}, {"windows", rows.questions.size()}};
  out["loss"] = scores.loss;
  out.update(ordered_json(scores.all.means()));
  if (scores.unanswerable.questions == 0) return out;
  train::AnswerTotals answerable = scores.all;
  answerable.questions -= scores.unanswerable.questions;
  answerable.exact -= scores.unanswerable.exact;
  answerable.f1 -= scores.unanswerable.f1;
  const auto add = [&](const char* kind, const train::AnswerTotals& totals) {
    out[kind] = {{"questions", totals.questions}};
    out[kind].update(ordered_json(totals.means()));
  };
  if (answerable.questions > 0) add("answerable", answerable);
  add("unanswerable", scores.unanswerable);
  return out;
}

std::string share_text(double share) { return fixed(100 * share, 2) + " %"; }

std::string text_of(const ordered_json& result) {
  std::vector<std::vector<std::string>> table;
  for (const char* name : {"questions", "windows"})
    table.push_back({name, std::to_string(result[name].get<int64_t>())});
  table.push_back({"loss", fixed(result["loss"], 4)});
  table.push_back({"exact match", share_text(result["exact_match"])});
  table.push_back({"f1", share_text(result["f1"])});
  for (const char* kind : {"answerable", "unanswerable"}) {
    if (!result.contains(kind)) continue;
    table.push_back({concat(kind, " questions"), std::to_string(result[kind]["questions"].get<int64_t>())});
    table.push_back({concat(kind, " exact match"), share_text(result[kind]["exact_match"])});
    table.push_back({concat(kind, " f1"), share_text(result[kind]["f1"])});
  }
  return table_text(table);
}

void evaluate_answers(const AnswerArguments& arguments) {
  const data::Questions questions = data::read_questions(arguments.common.test);
  const auto opened = pipelines::open_text_encoder(arguments.common.model, arguments.common.load);
  const models::TextEncoderConfig& config = opened->model->config();
  pipelines::require_head(config.labelled == models::ClassificationTarget::spans, opened->folder,
                          "a question answering");
  const train::AnswerRows rows = train::encode_answers(
      questions, opened->tokenizer,
      {.max_length = pipelines::answer_window("--window", arguments.window, config.max_positions),
       .shared = arguments.settings.shared});
  const auto scores = train::score_answers(*opened->model, questions, rows,
                                           arguments.settings.max_answer_tokens, kEvaluationTokens);
  const ordered_json result = json_of(*scores, rows);
  std::cout << (arguments.common.json ? result.dump(2) + "\n" : text_of(result)) << std::flush;
}

}  // namespace

void add_answer_evaluation(Command& group) {
  Command* command = add_command(
      group, "answer",
      "Answer questions about texts. Prints the share of exact matches and the F1 of words, as SQuAD's\n"
      "official script computes them; apart for questions without an answer, if there are any.",
      "qkv evaluate answer model --test dev-v2.0.json --json");
  const auto arguments = std::make_shared<AnswerArguments>();
  add_evaluation_arguments(*command, arguments->common, "FILE",
                           "Test data, in the format of the training data");
  add_option(*command, "--window", arguments->window, "TOKENS",
             "Tokens of question and text read at once; 0: the model's limit, at most 384")
      ->check(at_least(0));
  add_option(*command, "--shared", arguments->settings.shared, "TOKENS",
             "Tokens of a text in a window and the next one; at most half")
      ->check(at_least(0));
  add_option(*command, "--max-answer-tokens", arguments->settings.max_answer_tokens, "TOKENS",
             "Maximum tokens of an answer")
      ->check(at_least(1));
  command->callback([arguments] { evaluate_answers(*arguments); });
}

TrainingTask answer_task() {
  return {.name = "answer",
          .description =
              "Train a model that answers questions by spans of texts, or fine-tune an encoder folder as one",
          .footer = kAnswerFooter,
          .presets = models::shape_preset_names(),
          .preset = "mini",
          .make_job = [] { return std::make_unique<train::AnswerJob>(); },
          .batch_json = label_batch_json,
          .add_evaluation = add_answer_evaluation};
}

}  // namespace qkv::apps
