#include "apps/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "qkv/base/counted.h"

namespace qkv::apps {
namespace {

size_t code_points(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

Style::Style(int descriptor) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value ? value : "");
  };
  colour_ = ::isatty(descriptor) == 1 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

Style Style::for_stdout() { return Style(STDOUT_FILENO); }
Style Style::for_stderr() { return Style(STDERR_FILENO); }

std::string Style::wrap(const char* code, const std::string& text) const {
  return colour_ ? "\033[" + std::string(code) + "m" + text + "\033[0m" : text;
}

bool stdin_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string counted(int64_t number, std::string_view things) {
  return grouped(number) + " " + noun(number, things);
}

std::string bytes_text(int64_t bytes) {
  static constexpr std::array<const char*, 7> kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s",
                value < 9.995   ? 2
                : value < 99.95 ? 1
                                : 0,
                value, kUnits[unit]);
  return text.data();
}

std::string fixed(double number, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, number);
  return text.data();
}

std::string percent(double share) { return fixed(100 * share, share < 0.0995 ? 1 : 0) + " %"; }

std::string pad_right(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, code_points(text)), ' ');
}

std::string pad_left(const std::string& text, size_t width) {
  return std::string(width - std::min(width, code_points(text)), ' ') + text;
}

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], code_points(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? pad_right(row[i], widths[i]) : "  " + pad_left(row[i], widths[i]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace qkv::apps
