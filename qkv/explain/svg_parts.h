#pragma once
// Building blocks of the SVG drawings.

#include <string>
#include <string_view>

#include "qkv/explain/palette.h"

namespace qkv::explain {

inline constexpr double kMargin = 24, kLetterWidth = 0.58;  // kLetterWidth: in units of the font size
inline constexpr const char* kInk = "#1b1f27";
inline constexpr const char* kQuiet = "#5d6675";

// Formats with one decimal, or none if it is 0.
std::string number(double value);

struct Label {
  std::string text;  // XML
  double letters = 0;
};

// A token as XML text, shortened to `most` letters. Characters invalid in XML become replacement characters.
Label xml_label(std::string_view token, int most = 20);

// The colour at a position from 0 to 1, and its CSS notation.
uint32_t blend(const Ramp& ramp, double place);
std::string hex(uint32_t colour);

// `extra`: attributes, each preceded by a space.
std::string text_at(double x, double y, double size, const char* fill, std::string_view extra,
                    const std::string& xml);

}  // namespace qkv::explain
