#pragma once
// Functions of Python's str on UTF-8 texts. Positions and lengths are in code points.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::jinja {

// Classes of characters, as str.isspace() and its siblings have them.
bool is_space(char32_t c);
bool is_line_end(char32_t c);   // of str.splitlines()
bool is_printable(char32_t c);  // of repr()
bool is_alphabetic(char32_t c);
bool is_decimal(char32_t c);          // str.isdecimal()
bool is_digit_character(char32_t c);  // str.isdigit()
bool is_numeric(char32_t c);          // str.isnumeric()
bool is_title_case(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_name_start(char32_t c);  // of identifiers
bool is_name_part(char32_t c);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string title(std::string_view text);       // str.title()
std::string capitalize(std::string_view text);  // str.capitalize()
std::string swap_case(std::string_view text);

// Removes these characters, or white space, at the chosen ends.
std::string_view strip(std::string_view text, const std::optional<std::string_view>& characters = {},
                       bool left = true, bool right = true);
// At most `most` splits, no limit if negative; without a separator at white space. The separator is not
// empty.
std::vector<std::string> split(std::string_view text, const std::optional<std::string_view>& separator,
                               int64_t most);
std::vector<std::string> split_right(std::string_view text, const std::optional<std::string_view>& separator,
                                     int64_t most);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);
// Replaces the first `most` occurrences, all if negative.
std::string replace(std::string_view text, std::string_view old, std::string_view with, int64_t most);
// Occurrences that do not overlap; an empty one occurs between all characters.
int64_t count(std::string_view text, std::string_view part);

std::string hex_escape(char32_t c);              // a character of repr(): \xe4
std::string string_repr(std::string_view text);  // repr()
std::string escape_html(std::string_view text);

std::string float_repr(double value);
// As int() and float() read texts; nothing if they throw ValueError. `overflow` tells of integers beyond 64
// bits.
std::optional<int64_t> parse_integer(std::string_view text, int base, bool& overflow);
std::optional<double> parse_float(std::string_view text);

}  // namespace qkv::jinja
