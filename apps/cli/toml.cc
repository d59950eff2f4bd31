#include "apps/cli/toml.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

class Reader {
 public:
  Reader(std::string text, std::string name) : text_(std::move(text)), name_(std::move(name)) {}

  std::vector<TomlEntry> read() {
    std::vector<TomlEntry> entries;
    std::vector<std::string> table;
    std::set<std::pair<std::vector<std::string>, std::string>> seen;
    for (skip_lines(); !done(); skip_lines()) {
      if (take('[')) {
        table = read_table();
      } else {
        TomlEntry entry{.line = line_, .table = table, .key = read_key(), .values = {}};
        if (!seen.emplace(table, entry.key).second)
          fail(concat("expected the key ", entry.key, " once, found it again"));
        skip_blanks();
        if (!take('=')) fail(concat("expected '=' after ", entry.key, ", found ", here()));
        skip_blanks();
        if (take('[')) {
          read_array(entry.values);
        } else {
          entry.values.push_back(read_value());
        }
        entries.push_back(std::move(entry));
      }
      skip_blanks();
      if (!done() && next() != '\n' && next() != '#') fail(concat("expected the line's end, found ", here()));
    }
    return entries;
  }

 private:
  bool done() const { return at_ == text_.size(); }
  char next() const { return text_[at_]; }
  bool take(char wanted) {
    if (done() || next() != wanted) return false;
    line_ += wanted == '\n' ? 1 : 0;
    ++at_;
    return true;
  }
  // The rest of the line.
  std::string here() const {
    if (done()) return "the end of the file";
    const std::string rest = text_.substr(at_, std::min(text_.find('\n', at_) - at_, size_t{40}));
    return rest.empty() ? "the end of the line" : concat("'", rest, "'");
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw UsageError(concat(name_, ":", line_, ": ", message));
  }

  void skip_blanks() {
    while (take(' ') || take('\t')) {
    }
  }
  // Skips blanks, comments and line ends.
  void skip_lines() {
    for (;;) {
      skip_blanks();
      if (!done() && next() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      if (!take('\n')) return;
    }
  }

  std::string read_key() {
    const size_t begin = at_;
    while (!done() &&
           (std::isalnum(static_cast<unsigned char>(next())) != 0 || next() == '-' || next() == '_'))
      ++at_;
    if (at_ == begin) fail(concat("expected KEY = VALUE, found ", here()));
    return text_.substr(begin, at_ - begin);
  }

  std::vector<std::string> read_table() {
    std::vector<std::string> table;
    do {
      skip_blanks();
      table.push_back(read_key());
      skip_blanks();
    } while (take('.'));
    if (!take(']')) fail(concat("expected ']' after the table's name, found ", here()));
    return table;
  }

  void read_array(std::vector<std::string>& values) {
    for (skip_lines(); !take(']'); skip_lines()) {
      values.push_back(read_value());
      skip_lines();
      if (take(',')) continue;
      if (done() || next() != ']') fail(concat("expected ',' or ']', found ", here()));
    }
  }

  std::string read_value() {
    if (take('"')) return read_basic();
    if (take('\'')) {
      const size_t end = text_.find_first_of("'\n", at_);
      if (end == std::string::npos || text_[end] == '\n')
        fail("expected ' at the end of the string, found none");
      return text_.substr(std::exchange(at_, end + 1), end - at_);
    }
    const size_t end = std::min(text_.find_first_of(" \t\n,]#", at_), text_.size());
    std::string word = text_.substr(at_, end - at_);
    if (word != "true" && word != "false" && !is_number(word))
      fail(concat("expected a string in quotes, a number, true or false, found ", here()));
    at_ = end;
    std::erase(word, '_');
    return word;
  }

  static bool is_number(std::string_view word) {
    if (word.starts_with('+') || word.starts_with('-')) word.remove_prefix(1);
    return !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) != 0 &&
           word.find_first_not_of("0123456789._eE+-") == word.npos;
  }

  std::string read_basic() {
    std::string value;
    for (;;) {
      if (done() || next() == '\n') fail("expected \" at the end of the string, found none");
      const char c = text_[at_++];
      if (c == '"') return value;
      if (c != '\\') {
        value += c;
        continue;
      }
      constexpr std::string_view kEscapes = "\"\\nt", kMeant = "\"\\\n\t";
      const size_t escape = done() ? kEscapes.npos : kEscapes.find(next());
      if (escape == kEscapes.npos)
        fail("expected one of \\\" \\\\ \\n \\t in a string, found another escape");
      value += kMeant[escape];
      ++at_;
    }
  }

  std::string text_, name_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<TomlEntry> read_toml(std::istream& in, const std::string& name) {
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::erase(text, '\r');
  return Reader(std::move(text), name).read();
}

}  // namespace qkv::apps
