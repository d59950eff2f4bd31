#include "qkv/explain/svg_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "qkv/base/error.h"

namespace qkv::explain {
namespace {

// The length in bytes of the UTF-8 sequence at the beginning of `text`; 0 if malformed.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xC2 && byte(0) < 0xE0) return follows(1) ? 2 : 0;
  if (byte(0) >= 0xE0 && byte(0) < 0xF0) {
    const bool overlong = byte(0) == 0xE0 && byte(1) < 0xA0, surrogate = byte(0) == 0xED && byte(1) >= 0xA0;
    const bool noncharacter = byte(0) == 0xEF && byte(1) == 0xBF && byte(2) >= 0xBE;
    return follows(1) && follows(2) && !overlong && !surrogate && !noncharacter ? 3 : 0;
  }
  const bool in_range = (byte(0) > 0xF0 || byte(1) >= 0x90) && (byte(0) < 0xF4 || byte(1) < 0x90);
  return byte(0) >= 0xF0 && byte(0) <= 0xF4 && in_range && follows(1) && follows(2) && follows(3) ? 4 : 0;
}

constexpr std::string_view kWordMarks[] = {"\u2581", "\u0120"};  // of SentencePiece and of byte-level BPE

}  // namespace

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  std::string result = text.data();
  if (result.ends_with(".0")) result.resize(result.size() - 2);
  return result;
}

Label xml_label(std::string_view token, int most) {
  Label label;
  for (const std::string_view mark : kWordMarks) {
    if (!token.starts_with(mark) || token == mark) continue;
    label = {.text = concat("<tspan fill-opacity=\"0.3\">", mark, "</tspan>"), .letters = 1};
    token.remove_prefix(mark.size());
    break;
  }
  while (!token.empty()) {
    if (label.letters == most - 1 && token.size() > sequence_length(token)) {
      label.text += "\u2026";
      ++label.letters;
      break;
    }
    const size_t length = sequence_length(token);
    const char first = token.front();
    if (length == 0 || (length == 1 && (static_cast<unsigned char>(first) < 0x20 || first == 0x7f))) {
      label.text += "\uFFFD";
    } else if (first == '<') {
      label.text += "&lt;";
    } else if (first == '>') {
      label.text += "&gt;";
    } else if (first == '&') {
      label.text += "&amp;";
    } else {
      label.text += token.substr(0, length);
    }
    ++label.letters;
    token.remove_prefix(std::max<size_t>(length, 1));
  }
  return label;
}

uint32_t blend(const Ramp& ramp, double place) {
  const double at = std::clamp(place, 0.0, 1.0) * static_cast<double>(ramp.size() - 1);
  const size_t low = std::min(static_cast<size_t>(at), ramp.size() - 2);
  const double part = at - static_cast<double>(low);
  uint32_t colour = 0;
  for (const int shift : {16, 8, 0}) {
    const double a = ramp[low] >> shift & 255u, b = ramp[low + 1] >> shift & 255u;
    colour |= static_cast<uint32_t>(std::lround(a + (b - a) * part)) << shift;
  }
  return colour;
}

std::string hex(uint32_t colour) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "#%06x", colour & 0xFFFFFFu);
  return text.data();
}

std::string text_at(double x, double y, double size, const char* fill, std::string_view extra,
                    const std::string& xml) {
  return concat("<text x=\"", number(x), "\" y=\"", number(y), "\" font-size=\"", number(size), "\" fill=\"",
                fill, "\"", extra, ">", xml, "</text>\n");
}

}  // namespace qkv::explain
