#include "apps/chat/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "apps/chat/interrupt.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/base/utf8.h"

namespace qkv::apps {

struct LineEditor::Terminal {
  Terminal() {
    // The editor converts lines to wide characters and back.
    std::setlocale(LC_CTYPE, "C.UTF-8");
    screen = ::fdopen(::dup(STDERR_FILENO), "w");
    editor = ::el_init("qkv", stdin, screen, screen);
    past = ::history_init();
    HistEvent event;
    ::history(past, &event, H_SETSIZE, 1000);
    ::history(past, &event, H_SETUNIQUE, 1);
    ::el_set(editor, EL_CLIENTDATA, this);
    ::el_set(editor, EL_PROMPT, prompt_of);
    ::el_set(editor, EL_EDITOR, "emacs");
    ::el_set(editor, EL_HIST, ::history, past);
    ::el_set(editor, EL_SIGNAL, 1);  // restores the terminal before a signal takes effect
    ::el_set(editor, EL_GETCFN, next_character);
    ::el_source(editor, nullptr);  // ~/.editrc
  }
  ~Terminal() {
    ::history_end(past);
    ::el_end(editor);
    std::fclose(screen);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static char* prompt_of(EditLine* editor) {
    Terminal* own = nullptr;
    ::el_get(editor, EL_CLIENTDATA, &own);
    return own->prompt.data();
  }

  // A byte of stdin; 0 at its end, -1 after Ctrl-C, also if that came before the wait. libedit's own function
  // goes on reading after a signal.
  static int next_byte(unsigned char& byte) {
    sigset_t interrupt, before;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    for (;;) {
      pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      ::pthread_sigmask(SIG_BLOCK, &interrupt, &before);
      const int ready = Interrupt::pending() ? 0 : ::ppoll(&input, 1, nullptr, &before);
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
      if (Interrupt::pending()) return -1;
      if (ready < 0 && errno != EINTR) return -1;
      if (ready < 1) continue;
      const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
      if (byte == 0) byte = 4;  // a Ctrl-D that was typed before the terminal was in the editor's mode
      if (count >= 0) return static_cast<int>(count);
      if (errno != EINTR) return -1;
    }
  }
  // A character of UTF-8; U+FFFD in the place of other bytes.
  static int next_character(EditLine* /*editor*/, wchar_t* character) {
    std::string bytes;
    for (;;) {
      unsigned char byte = 0;
      if (const int count = next_byte(byte); count != 1) return count;
      bytes += static_cast<char>(byte);
      const unsigned char lead = static_cast<unsigned char>(bytes[0]);
      const size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF8 ? 4 : 1;
      if (bytes.size() < length) continue;
      *character = static_cast<wchar_t>(decode_utf8(bytes).front());
      return 1;
    }
  }

  std::string prompt;
  FILE* screen = nullptr;
  EditLine* editor = nullptr;
  History* past = nullptr;
};

LineEditor::LineEditor() {
  if (stdin_is_terminal()) {
    terminal_ = std::make_unique<Terminal>();
  } else {
    std::ios::sync_with_stdio(false);
    std::cin.exceptions(std::ios_base::badbit);  // a read error is not an end of input
  }
}

LineEditor::~LineEditor() = default;

LineEditor::Line LineEditor::read_line(const std::string& prompt) {
  if (terminal_ == nullptr) {
    std::string line;
    try {
      if (!std::getline(std::cin, line)) return {Kind::end};
    } catch (const std::ios_base::failure& error) {
      throw IoError(concat("stdin: cannot be read after line ", lines_, ": ", error.code().message()));
    }
    ++lines_;
    if (line.ends_with('\r')) line.pop_back();
    return {Kind::text, line};
  }
  std::cout.flush();
  terminal_->prompt = prompt;
  int count = 0;
  const char* line = ::el_gets(terminal_->editor, &count);
  if (Interrupt::pending()) {
    const LineInfo* dropped = ::el_line(terminal_->editor);
    const bool empty = dropped == nullptr || dropped->lastchar == dropped->buffer;
    Interrupt::clear();
    return {Kind::interrupted, empty ? "" : "line"};
  }
  if (line == nullptr || count <= 0) return {Kind::end};
  std::string text(line, static_cast<size_t>(count));
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (!text.empty()) {
    HistEvent event;
    ::history(terminal_->past, &event, H_ENTER, text.c_str());
  }
  return {Kind::text, text};
}

LineEditor::Line LineEditor::read(const std::string& prompt) {
  Line all = read_line(prompt);
  while (all.kind == Kind::text && all.text.ends_with('\\')) {
    all.text.back() = '\n';
    const Line more = read_line("... ");
    if (more.kind == Kind::interrupted) return {Kind::interrupted, "line"};
    if (more.kind == Kind::end) break;
    all.text += more.text;
  }
  return all;
}

}  // namespace qkv::apps
