#pragma once
// What the drawings are made of.

#include <string>
#include <string_view>

#include "qkv/explain/palette.h"

namespace qkv::explain {

inline constexpr double kMargin = 24, kLetterWidth = 0.58;  // the latter in units of the font size
inline constexpr const char* kInk = "#1b1f27";
inline constexpr const char* kQuiet = "#5d6675";

// With one digit behind the point, or none where it is 0.
std::string number(double value);

struct Label {
  std::string text;  // XML
  double letters = 0;
};

// A token as XML text, cut to `most` letters. What XML cannot hold becomes a replacement character.
Label xml_label(std::string_view token, int most = 20);

// The colour at a place from 0 to 1, and as XML spells it.
uint32_t blend(const Ramp& ramp, double place);
std::string hex(uint32_t colour);

// `extra` are attributes, with a space in front of each.
std::string text_at(double x, double y, double size, const char* fill, std::string_view extra,
                    const std::string& xml);

}  // namespace qkv::explain
