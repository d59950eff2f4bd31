#pragma once
// Lines of a conversation: typed at a terminal, with editing and history (libedit), or read from a file.

#include <cstdint>
#include <memory>
#include <string>

namespace qkv::apps {

class LineEditor {
 public:
  enum class Kind { text, interrupted, end };
  struct Line {
    Kind kind = Kind::end;
    std::string text = {};  // without the end of the line; of several lines joined by '\n'
  };

  // Edits lines if stdin is a terminal; the editor then draws on stderr.
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  bool interactive() const { return terminal_ != nullptr; }
  // The next input. A backslash at the end of a line joins the next line to it. `interrupted`: Ctrl-C
  // (Interrupt) dropped the input, which was empty if the text is. Throws IoError if stdin cannot be read.
  Line read(const std::string& prompt);

 private:
  struct Terminal;
  Line read_line(const std::string& prompt);

  std::unique_ptr<Terminal> terminal_;
  int64_t lines_ = 0;  // read, without a terminal
};

}  // namespace qkv::apps
