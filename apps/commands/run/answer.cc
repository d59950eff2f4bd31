// qkv answer

#include <iomanip>
#include <memory>
#include <sstream>

#include "apps/cli/field_options.h"
#include "apps/line_results.h"
#include "qkv/base/error.h"
#include "qkv/pipelines/answers/answer.h"
#include "qkv/pipelines/checks.h"
#include "qkv/text/lines.h"
#include "qkv/text/text_file.h"

namespace qkv::apps {
namespace {

struct AnswerArguments {
  LineArguments lines;
  std::optional<std::string> question, context;
  GivenFields options;
};

// On one line.
std::string flattened(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

std::string answer_text(const pipelines::AnsweredText& answered, int64_t line, bool all) {
  if (!all) return answered.answers.empty() ? "" : flattened(answered.answers.front().text);
  std::ostringstream text;
  text << std::fixed << std::setprecision(6);
  for (const pipelines::Answer& one : answered.answers) {
    if (text.tellp() > 0) text << '\n';
    text << line << '\t' << one.probability << '\t' << flattened(one.text);
  }
  return text.str();
}

void answer(const AnswerArguments& arguments) {
  if (arguments.question.has_value() == arguments.context.has_value())
    throw UsageError("expected either --question or --context, found both or none");
  std::string fixed;  // the question, or the text
  if (arguments.question) {
    fixed = *arguments.question;
    pipelines::require_text("--question", fixed);
    if (text::is_blank(fixed)) throw UsageError("--question: expected text, found none");
  } else {
    fixed = text::read_text(*arguments.context);
    std::string error = pipelines::text_error(fixed);
    if (error.empty() && text::is_blank(fixed)) error = "expected text, found none";
    if (!error.empty()) throw DataError(concat(*arguments.context, ": ", error));
  }
  const pipelines::QuestionAnswerer answerer(arguments.lines.model, arguments.lines.load);
  pipelines::AnswerOptions options;
  arguments.options.apply(options);
  print_results(
      arguments.lines, Inputs::texts,
      [&](std::span<const std::string> lines, auto&&...) {
        std::vector<pipelines::QuestionedText> items;
        for (const std::string& line : lines) {
          items.push_back(arguments.question ? pipelines::QuestionedText{.question = fixed, .text = line}
                                             : pipelines::QuestionedText{.question = line, .text = fixed});
        }
        return answerer(items, options);
      },
      [&](const pipelines::AnsweredText& found, const pipelines::Line& line) {
        return answer_text(found, line.number, arguments.options.has("top"));
      },
      [](const pipelines::AnsweredText& found) { return to_json(found); });
}

}  // namespace

void add_answer(Command& app) {
  Command* command = add_command(
      app, "answer",
      "Answer a question from texts, or from each line of stdin; or questions from one text. Prints the "
      "span\n"
      "of the text that is most likely the answer; with --top the line's number, the probability and the\n"
      "answer of each, separated by tabs. The model has a question answering head (bert, roberta,\n"
      "deberta-v2, ...), trained on SQuAD or alike.",
      "qkv answer roberta-base-squad2 --question 'Where does Ada live?' 'Ada lives in Berlin.'\n"
      "  qkv answer roberta-base-squad2 --context article.txt --unanswerable --json < questions.txt");
  const auto arguments = std::make_shared<AnswerArguments>();
  add_line_options(*command, arguments->lines, "Texts, or with --context questions");
  add_option(*command, "--question", arguments->question, "TEXT",
             "The question about all texts (default: each line is one)");
  add_option(*command, "--context", arguments->context, "FILE",
             "File with the text of all questions (default: each line is one)");
  add_field_options<pipelines::AnswerOptions>(*command, arguments->options, {""});
  run_on_ranks(*command, arguments->lines, [arguments] { answer(*arguments); });
}

}  // namespace qkv::apps
