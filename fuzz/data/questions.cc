// Reads questions with their answers, and encodes them in windows.

#include "qkv/data/labels/questions.h"

#include <stdexcept>

#include "fuzz/reader.h"
#include "qkv/base/error.h"
#include "qkv/text/tokenizer.h"
#include "qkv/train/tasks/answers/answer_rows.h"

namespace qkv::fuzz {
namespace {

// Every byte is a token.
const text::Tokenizer& tokenizer() {
  static const text::Tokenizer made = text::Tokenizer::from_json(
      R"({"added_tokens": [{"id": 0, "content": "[CLS]", "special": true}],
          "pre_tokenizer": {"type": "Whitespace"},
          "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                     {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [0], "tokens": ["[CLS]"]}}},
          "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[CLS]": 0, "[UNK]": 1, "a": 2, "##a": 3}}})",
      R"({"cls_token": "[CLS]"})", "tokenizer.json");
  return made;
}

void read(std::string_view bytes) {
  const data::Questions questions = data::parse_questions(bytes, "questions");
  for (const data::Question& one : questions.items) {
    const std::string& context = questions.contexts.at(one.context);
    for (const data::RightAnswer& answer : one.answers) {
      if (context.substr(answer.begin, answer.text.size()) != answer.text)
        throw std::logic_error("not its text");
    }
  }
  train::encode_answers(questions, tokenizer(), {.max_length = 12, .shared = 2});
}

std::vector<std::string> seeds() {
  return {
      R"({"version": "v2.0", "data": [{"title": "x", "paragraphs": [{"context": "aa lives in aaa, a.", "qas": [
        {"id": "1", "question": "a?", "answers": [{"text": "aaa", "answer_start": 12}], "is_impossible": false},
        {"id": "2", "question": "aa", "answers": [], "is_impossible": true}]}]}]})",
      R"({"question": "a?", "context": "aa é aaa", "answers": {"text": ["é"], "answer_start": [3]}})"
      "\n"
      R"({"question": "aa?", "context": "aa", "answers": {"text": [], "answer_start": []}})"
      "\n"};
}

}  // namespace

const Reader questions{"questions", read, seeds};

}  // namespace qkv::fuzz
