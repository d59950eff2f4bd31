// Files of questions with answers.

#include "qkv/data/labels/questions.h"

#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "tests/support/scratch.h"

namespace qkv::data {
namespace {

using testing::expect_throw;
using testing::Scratch;

const char* const kSquad = R"({"version": "v2.0", "data": [{"title": "x", "paragraphs": [
  {"context": "Zoë lives in Köln.", "qas": [
    {"id": "1", "question": "Where?", "answers": [{"text": "Köln", "answer_start": 13}, {"text": "in Köln", "answer_start": 10}]},
    {"id": "2", "question": "Why?", "answers": [], "plausible_answers": [{"text": "Zoë", "answer_start": 0}], "is_impossible": true}]},
  {"context": "A second\ntext.", "qas": [{"question": "What?", "answers": [{"text": "second\ntext", "answer_start": 2}]}]}]}]})";

void expect_both(const Questions& found) {
  ASSERT_EQ(found.contexts.size(), 2U);
  ASSERT_EQ(found.items.size(), 3U);
  EXPECT_EQ(found.items[0].question, "Where?");
  ASSERT_EQ(found.items[0].answers.size(), 2U);
  EXPECT_EQ(found.items[0].answers[0].begin, 14U) << "in bytes";
  EXPECT_EQ(found.items[0].answers[1].text, "in K\xc3\xb6ln");
  EXPECT_TRUE(found.items[1].answers.empty());
  EXPECT_EQ(found.items[1].context, 0U);
  EXPECT_EQ(found.items[2].context, 1U);
  EXPECT_EQ(found.contexts[1].substr(found.items[2].answers[0].begin), "second\ntext.");
  EXPECT_TRUE(found.has_unanswerable());
}

TEST(Questions, ReadsEachFormat) {
  const Scratch scratch;
  const auto read = [&](const std::string& content) {
    return read_questions(scratch.write("file", content));
  };
  expect_both(read(kSquad));
  EXPECT_EQ(read(kSquad).items[2].where, "data[0].paragraphs[1].qas[0]");
  std::string one_line = kSquad;
  std::erase(one_line, '\n');
  expect_both(read("\xEF\xBB\xBF" + one_line + "\n"));
  const Questions lines = read(
      R"({"id": "1", "question": "Where?", "context": "Zoë lives in Köln.", "answers": {"text": ["Köln", "in Köln"], "answer_start": [13, 10]}})"
      "\r\n\n"
      R"({"question": "Why?", "context": "Zoë lives in Köln.", "answers": {"text": [], "answer_start": []}})"
      "\n"
      R"({"question": "What?", "context": "A second\ntext.", "answers": [{"text": "second\ntext", "answer_start": 2}]})");
  expect_both(lines);
  EXPECT_EQ(lines.items[2].where, "line 4");
  // A single line is one of JSON lines, too.
  EXPECT_FALSE(read(R"({"question": "a", "context": "b", "answers": {"text": ["b"], "answer_start": [0]}})")
                   .has_unanswerable());
}

TEST(Questions, RefusesWhatIsWrongNamingThePlace) {
  const Scratch scratch;
  const auto refused = [&](const std::string& content, const std::string& message) {
    const auto file = scratch.write("file", content);
    expect_throw<DataError>(message, [&] { read_questions(file); });
  };
  const auto with = [](const std::string& old, const std::string& now) {
    std::string text = kSquad;
    return text.replace(text.find(old), old.size(), now);
  };
  refused("", "file: expected questions, found none");
  refused(" \n", "file: expected questions, found none");
  refused("a\xff", "file: expected UTF-8, found a malformed character at byte 1");
  refused("question,context\n", "file: expected JSON, found a syntax error at line 1");
  refused("[1, 2]", "file");
  refused(R"({"question": "a", "contxt": "b"})", "file:1: expected a member 'context', found none");
  refused(R"({"data": []})", "file: expected questions, found none");
  refused(with("13}", "14}"),
          "data[0].paragraphs[0].qas[0].answers[0].answer_start: expected the character of the context where "
          "'K\xc3\xb6ln' begins, found 14");
  refused(with("13}", "-1}"), "answer_start: expected");
  refused(with("13}", "1000000}"), "answer_start: expected the character");
  refused(with("\"Where?\"", "\" \""), "qas[0].question: expected a text, found");
  refused(with("\"Zo\xc3\xab lives in K\xc3\xb6ln.\"", "7"), "paragraphs[0].context");
  refused(with("\"qas\"", "\"questions\""), "qas");
  refused(R"({"question": "a", "context": "b", "answers": {"text": ["b"], "answer_start": []}})"
          "\n",
          "file:1: answers: expected as many starts as texts, 1");
  refused(R"({"question": "a", "context": "b", "answers": {"text": ["b"], "answer_start": [0]}})"
          "\n{\"question\": \"a\"}\n",
          "file:2");
}

}  // namespace
}  // namespace qkv::data
