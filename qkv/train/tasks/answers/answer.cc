#include "qkv/train/tasks/answers/answer.h"

#include <algorithm>

#include "qkv/base/counted.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/pipelines/answers/answer.h"
#include "qkv/text/text_file.h"
#include "qkv/train/ranks/node_share.h"

namespace qkv::train {
namespace {

// Contexts and questions, one per line.
void write_questions(const data::Questions& questions, const std::filesystem::path& file) {
  AtomicFile out(file);
  const auto write = [&](std::string text) {
    std::ranges::replace(text, '\n', ' ');
    out.write(text + "\n");
  };
  for (const std::string& context : questions.contexts) write(context);
  for (const data::Question& question : questions.items) write(question.question);
  out.commit();
}

void report(const char* name, const data::Questions& questions, const AnswerRows& rows) {
  log_info(concat(name, ": ", counted(std::ssize(questions.items), "questions"), " about ",
                  counted(std::ssize(questions.contexts), "texts"), ", ",
                  counted(std::ssize(rows.questions), "windows")));
  if (rows.unreached > 0)
    log_warning(concat(name, ": ", counted(rows.unreached, "questions"),
                       " with an answer that is in no window (train.max_length, data.shared)"));
}

}  // namespace

void AnswerJob::list(Settings& all) {
  EncoderJob::list(all);
  all.flag("model.from",
           {"DIR", "Encoder of texts (bert, deberta-v2, ...) to start from (default: random weights)"});
  all.flag("data.train", {"FILE", "Questions with answers to train on (default: the resumed run's)"});
  all.flag("data.valid", {"FILE", "Questions with answers to validate on (default: none)"});
  all.flag("train.max_length",
           {"TOKENS", "Tokens of question and text in a window; 0: the model's limit, at most 384"});
  all.flag("train.batch_tokens", {"TOKENS", "Tokens per batch; 0: those of 32 windows on average"});
  list_settings(all, answers);
}

void AnswerJob::check() const {
  check_settings();
  data::read_questions(train);
  if (!valid.empty()) data::read_questions(valid);
}

std::unique_ptr<Task> AnswerJob::make_task(bool resumes, TrainObserver& observer,
                                           const std::atomic<bool>* stop) const {
  observer.on_stage("reading the data");
  data::Questions questions;
  if (!node || node->is_first()) questions = data::read_questions(train);
  EncoderStart start = open_start(
      resumes, observer, [&](const std::filesystem::path& file) { write_questions(questions, file); }, stop);
  start.label(target(), {}, models::ProblemType::single_label);
  const text::Windows windows{
      .max_length = pipelines::answer_window("train.max_length", task.max_length, start.config.max_positions),
      .shared = answers.shared};

  observer.on_stage("tokenizing");
  AnswerTask::Inputs inputs{.encoder = std::move(start),
                            .options = task,
                            .settings = answers,
                            .train = {},
                            .fields = task_fields()};
  inputs.options.max_length = windows.max_length;
  const auto encode = [&](const data::Questions& of, AnswerUse use) {
    return once_a_node<AnswerRows>(
        node, [&] { return encode_answers(of, inputs.encoder.tokenizer, windows, use, stop); });
  };
  AnswerRows rows = encode(questions, AnswerUse::training);
  report("training data", questions, rows);
  inputs.train = std::move(rows.rows);
  if (!valid.empty()) {
    const SharedTexts content =
        once_a_node<SharedTexts>(node, [&] { return SharedTexts{{text::read_text(valid)}}; });
    data::Questions held_out = data::parse_questions(content.texts.front(), valid);
    AnswerRows held_out_rows = encode(held_out, AnswerUse::evaluation);
    report("validation data", held_out, held_out_rows);
    inputs.valid.emplace(AnswerTask::Inputs::Validation{std::move(held_out), std::move(held_out_rows)});
  }
  return std::make_unique<AnswerTask>(std::move(inputs));
}

}  // namespace qkv::train
