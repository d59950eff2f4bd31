#include "qkv/data/labels/questions.h"

#include <algorithm>
#include <unordered_map>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/base/utf8.h"
#include "qkv/text/lines.h"
#include "qkv/text/text_file.h"

namespace qkv::data {
namespace {

// A text that is not blank.
std::string text_of(const JsonValue& value) {
  std::string text = value.string();
  if (text::is_blank(text)) value.fail("a text");
  return text;
}

// The byte where a character begins; npos beyond the text.
size_t byte_of(std::string_view text, int64_t character) {
  size_t at = 0;
  for (; character > 0 && at < text.size(); --character) next_character(text, at);
  return character > 0 ? std::string_view::npos : at;
}

RightAnswer answer_of(const JsonValue& text, const JsonValue& start, const std::string& context) {
  RightAnswer answer{.text = text_of(text), .begin = byte_of(context, start.integer(0, INT64_MAX))};
  if (answer.begin == std::string::npos ||
      context.compare(answer.begin, answer.text.size(), answer.text) != 0)
    start.fail(concat("the character of the context where '", answer.text, "' begins"));
  return answer;
}

std::vector<RightAnswer> answers_of(const JsonValue& question, const std::string& context) {
  std::vector<RightAnswer> answers;
  // SQuAD 2.0 lists others as "plausible_answers".
  if (question.boolean_or("is_impossible", false)) return answers;
  const JsonValue given = question["answers"];
  if (given.is_array()) {
    for (const JsonValue& one : given.items())
      answers.push_back(answer_of(one["text"], one["answer_start"], context));
    return answers;
  }
  const std::vector<JsonValue> texts = given["text"].items(), starts = given["answer_start"].items();
  if (texts.size() != starts.size()) given.fail(concat("as many starts as texts, ", texts.size()));
  for (size_t i = 0; i < texts.size(); ++i) answers.push_back(answer_of(texts[i], starts[i], context));
  return answers;
}

// "data[0].paragraphs[1]" of "train.json: data[0].paragraphs[1]".
std::string place_of(const JsonValue& value, const std::filesystem::path& file) {
  const std::string path = value.path(), prefix = file.string() + ": ";
  return path.starts_with(prefix) ? path.substr(prefix.size()) : path;
}

void read_squad(const JsonValue& root, Questions& out) {
  for (const JsonValue& article : root["data"].items()) {
    for (const JsonValue& paragraph : article["paragraphs"].items()) {
      out.contexts.push_back(text_of(paragraph["context"]));
      for (const JsonValue& question : paragraph["qas"].items()) {
        out.items.push_back({.context = out.contexts.size() - 1,
                             .question = text_of(question["question"]),
                             .answers = answers_of(question, out.contexts.back()),
                             .where = place_of(question, out.file)});
      }
    }
  }
}

void read_lines(std::string_view content, Questions& out) {
  std::unordered_map<std::string, size_t> known;
  int64_t number = 0;
  while (!content.empty()) {
    const size_t end = std::min(content.find('\n'), content.size());
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    ++number;
    if (text::is_blank(line)) continue;
    const JsonValue object = parse_json(line, concat(out.file.string(), ":", number));
    std::string context = text_of(object["context"]);
    const auto [place, added] = known.emplace(context, out.contexts.size());
    if (added) out.contexts.push_back(std::move(context));
    out.items.push_back({.context = place->second,
                         .question = text_of(object["question"]),
                         .answers = answers_of(object, out.contexts[place->second]),
                         .where = concat("line ", number)});
  }
}

constexpr const char* kWhiteSpace = " \t\r\n";

// Whether each line is a question, and not all lines one JSON document.
bool has_lines(std::string_view content) {
  const size_t begin = content.find_first_not_of(kWhiteSpace);
  std::string_view first = content.substr(begin, content.find('\n', begin) - begin);
  first = first.substr(0, first.find_last_not_of(kWhiteSpace) + 1);
  const auto has = [&](std::string_view key) { return first.find(key) != first.npos; };
  const bool squad = has("\"data\"") && (has("\"paragraphs\"") || !has("\"context\""));
  return first.starts_with('{') && first.ends_with('}') && !squad;
}

}  // namespace

bool Questions::has_unanswerable() const {
  return std::ranges::any_of(items, [](const Question& one) { return one.answers.empty(); });
}

Questions read_questions(const std::filesystem::path& file) {
  return parse_questions(text::read_text(file), file);
}

Questions parse_questions(std::string_view content, const std::filesystem::path& file) {
  if (const auto bad = first_bad_utf8(content))
    throw DataError(concat(file.string(), ": expected UTF-8, found a malformed character at byte ", *bad));
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (content.starts_with(kMark)) content.remove_prefix(kMark.size());
  Questions questions{.file = file, .contexts = {}, .items = {}};
  if (!text::is_blank(content)) {
    if (has_lines(content)) {
      read_lines(content, questions);
    } else {
      read_squad(parse_json(content, file.string()), questions);
    }
  }
  if (questions.items.empty()) throw DataError(concat(file.string(), ": expected questions, found none"));
  return questions;
}

}  // namespace qkv::data
