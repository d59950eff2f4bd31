#include "qkv/data/labels/tagged_sentences.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/data/labels/json_lines.h"
#include "qkv/data/labels/tables.h"
#include "qkv/text/lines.h"

namespace qkv::data {
namespace {

std::vector<std::string_view> columns_of(std::string_view line) {
  const bool tabs = line.find('\t') != line.npos;
  std::vector<std::string_view> columns;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(tabs ? '\t' : ' ', begin), line.size());
    if (tabs || end > begin) columns.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return columns;
}

bool is_comment(std::string_view line, bool sentence_begins) {
  if (!line.starts_with('#') || line.find('\t') != line.npos) return false;
  return line.find(' ') == line.npos || (sentence_begins && line.starts_with("# "));
}

// "3-4" or "3.1", as in CoNLL-U.
bool is_range_of_words(std::string_view number) {
  const size_t mark = number.find_first_not_of("0123456789");
  return mark > 0 && mark < number.size() && (number[mark] == '-' || number[mark] == '.') &&
         mark + 1 < number.size() && number.find_first_not_of("0123456789", mark + 1) == number.npos;
}

// The sentence that the lines so far form.
class Sentences {
 public:
  explicit Sentences(TaggedSentences& out) : out_(out) {}

  bool begins() const { return current_.words.empty(); }
  void add(std::string_view word, std::string_view tag, int64_t line) {
    if (text::is_blank(word) || text::is_blank(tag)) {
      throw DataError(concat(out_.file.string(), ":", line, ": expected ",
                             text::is_blank(word) ? "a word" : "a tag", ", found an empty one"));
    }
    current_.words.emplace_back(word);
    current_.tags.emplace_back(tag);
    current_.lines.push_back(line);
  }
  void end() {
    if (!begins()) out_.items.push_back(std::move(current_));
    current_ = {};
  }

 private:
  TaggedSentences& out_;
  TaggedSentence current_;
};

void add_columns(const std::string& line, int64_t number, const TaggedFormat& format, Sentences& sentences,
                 const std::string& where) {
  const std::vector<std::string_view> columns = columns_of(line);
  if (columns.front() == "-DOCSTART-") return;
  if (format.word_column > 1 && is_range_of_words(columns.front())) return;
  const auto count = std::ssize(columns);
  const int64_t tag = format.tag_column == 0 ? count : format.tag_column;
  const int64_t least = std::max({format.word_column, tag, int64_t{2}});
  if (count < least) {
    throw DataError(concat(where, ": expected at least ", least, " columns (word and tag), found ", count));
  }
  if (tag == format.word_column) {
    throw DataError(concat(where, ": expected a tag after column ", tag, ", found none"));
  }
  const std::string_view word = columns[static_cast<size_t>(format.word_column - 1)];
  const std::string_view label = columns[static_cast<size_t>(tag - 1)];
  if (number == 1 && is_column(word, kWordColumn) && is_column(label, kTagColumn))
    refuse_header(where, "a word and its tag");
  sentences.add(word, label, number);
}

void add_json(const std::string& line, int64_t number, Sentences& sentences, const std::string& where) {
  const JsonValue object = parse_json(line, where);
  const std::vector<JsonValue> words = object[object.has("words") ? "words" : "tokens"].items();
  const std::vector<JsonValue> tags = object["tags"].items();
  if (words.size() != tags.size()) {
    throw DataError(
        concat(where, ": expected as many tags as words, found ", tags.size(), " and ", words.size()));
  }
  for (size_t i = 0; i < words.size(); ++i) sentences.add(words[i].string(), label_text(tags[i]), number);
  sentences.end();
}

void require_columns(const TaggedFormat& format) {
  if (format.word_column < 1)
    throw UsageError(concat("data.word_column: expected 1 or more, found ", format.word_column));
  if (format.tag_column < 0 || format.tag_column == format.word_column) {
    throw UsageError(concat("data.tag_column: expected 0 or another column than data.word_column, found ",
                            format.tag_column));
  }
}

}  // namespace

int64_t TaggedSentences::words() const {
  int64_t sum = 0;
  for (const TaggedSentence& sentence : items) sum += std::ssize(sentence.words);
  return sum;
}

std::string TaggedSentences::where(const TaggedSentence& sentence, size_t word) const {
  return concat(file.string(), ":", sentence.lines.at(word));
}

TaggedSentences read_tagged_sentences(const std::filesystem::path& file, const TaggedFormat& format) {
  require_columns(format);
  TaggedSentences found{.file = file, .items = {}};
  Sentences sentences(found);
  text::LineReader reader(file);
  std::optional<bool> json;
  for (std::string line; reader.next(line);) {
    reader.require_utf8(line);
    if (text::is_blank(line)) {
      sentences.end();
      continue;
    }
    if (!json) {
      json = line.starts_with('{') && line.ends_with('}');
      if (!*json && line.find('\t') == line.npos)
        refuse_csv(file, "a word and its tag, separated by a tab or a space, or JSON lines", "convert it");
    }
    const std::string where = concat(file.string(), ":", reader.lines());
    if (*json) {
      add_json(line, reader.lines(), sentences, where);
    } else if (!is_comment(line, sentences.begins())) {
      add_columns(line, reader.lines(), format, sentences, where);
    }
  }
  sentences.end();
  if (found.items.empty()) throw DataError(concat(file.string(), ": expected tagged words, found none"));
  return found;
}

}  // namespace qkv::data
