#pragma once
// Text for people: colours, grouped numbers, aligned columns.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::apps {

// Emphasis on terminals; no effect elsewhere, with NO_COLOR set, or on a dumb terminal.
class Style {
 public:
  static Style for_stdout();
  static Style for_stderr();

  std::string bold(const std::string& text) const { return wrap("1", text); }
  std::string dim(const std::string& text) const { return wrap("2", text); }
  std::string good(const std::string& text) const { return wrap("32", text); }
  std::string bad(const std::string& text) const { return wrap("31", text); }

 private:
  explicit Style(int descriptor);
  std::string wrap(const char* code, const std::string& text) const;

  bool colour_ = false;
};

// Whether the stream is a terminal: only then is progress drawn in place, and input announced.
bool stdin_is_terminal();
bool stderr_is_terminal();

// 1234567 -> "1,234,567".
std::string grouped(int64_t number);

// counted(1, "pairs") -> "1 pair", counted(2000, "pairs") -> "2,000 pairs".
std::string counted(int64_t number, std::string_view things);

// 1536000 -> "1.54 MB": three digits, powers of ten.
std::string bytes_text(int64_t bytes);

// fixed(3.14159, 2) -> "3.14"; percent(0.5) -> "50 %", with one decimal below 10 %.
std::string fixed(double number, int digits);
std::string percent(double share);

// The text padded with spaces to `width` code points, on the right or on the left.
std::string pad_right(const std::string& text, size_t width);
std::string pad_left(const std::string& text, size_t width);

// Rows as lines with aligned columns: the first left-aligned, the others right-aligned, two spaces apart.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace qkv::apps
