#pragma once
// Files of questions about texts, whose answers are spans of these.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::data {

struct RightAnswer {
  std::string text;
  size_t begin = 0;  // in bytes of the context
};

struct Question {
  size_t context = 0;  // index
  std::string question;
  std::vector<RightAnswer> answers;  // none: the context has no answer
  std::string where;                 // "line 3" or "data[0].paragraphs[1].qas[2]"
};

struct Questions {
  std::filesystem::path file;
  std::vector<std::string> contexts;
  std::vector<Question> items;

  bool has_unanswerable() const;
};

// Reads a file, which gzip may compress, in one of two formats.
//  - SQuAD's, versions 1.1 and 2.0: {"data": [{"paragraphs": [{"context", "qas": [{"question", "answers":
//    [{"text", "answer_start"}], "is_impossible"}]}]}]}.
//  - JSON lines: {"question", "context", "answers": {"text": [...], "answer_start": [...]}}, as the library
//    `datasets` has SQuAD; "answers" may also be a list as above.
// answer_start counts characters. Throws IoError; DataError naming file and place for invalid JSON or UTF-8,
// an empty question or context, an answer that its context does not have at its place, and for a file without
// questions.
Questions read_questions(const std::filesystem::path& file);
// Likewise the content of a file, whose name is for messages.
Questions parse_questions(std::string_view content, const std::filesystem::path& file);

}  // namespace qkv::data
