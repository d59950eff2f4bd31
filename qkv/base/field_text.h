#pragma once
// Lossless conversion between options and text.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkv/base/error.h"

namespace qkv {

// The names of an enum's values.
template <class Enum>
using Words = std::span<const std::pair<std::string_view, Enum>>;

// Parses `text` into `value`. Throws UsageError naming the field, what was expected and what was found;
// `value` is then unchanged.
inline void parse_field(std::string_view field, std::string_view text, bool& value) {
  if (text != "true" && text != "false")
    throw UsageError(concat(field, ": expected true or false, found '", text, "'"));
  value = text == "true";
}

inline void parse_field(std::string_view /*field*/, std::string_view text, std::string& value) {
  value = text;
}

inline void parse_field(std::string_view /*field*/, std::string_view text, std::filesystem::path& value) {
  value = text;
}

// Finite numbers only.
template <class Number>
requires std::is_arithmetic_v<Number>
void parse_field(std::string_view field, std::string_view text, Number& value) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool good = error == std::errc() && end == text.data() + text.size();
  if constexpr (std::is_floating_point_v<Number>) good = good && std::isfinite(number);
  if (!good) {
    throw UsageError(concat(field, ": expected ", std::is_integral_v<Number> ? "a whole number" : "a number",
                            ", found '", text, "'"));
  }
  value = number;
}

template <class Enum>
void parse_field(std::string_view field, std::string_view text, Words<Enum> words, Enum& value) {
  std::string known;
  for (const auto& [word, meaning] : words) {
    if (word == text) {
      value = meaning;
      return;
    }
    known += concat(known.empty() ? "" : ", ", word);
  }
  throw UsageError(concat(field, ": expected one of ", known, ", found '", text, "'"));
}

// Pairs of whole numbers: "16:600,32:200"; "" has none. `expected`: the form, for messages.
using NumberPairs = std::vector<std::pair<int64_t, int64_t>>;
inline NumberPairs parse_pairs(std::string_view field, std::string_view text, std::string_view expected) {
  NumberPairs pairs;
  for (size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::string_view pair = text.substr(begin, text.find(',', begin) - begin);
    const size_t colon = std::min(pair.find(':'), pair.size());
    auto& [first, second] = pairs.emplace_back();
    try {
      parse_field(field, pair.substr(0, colon), first);
      parse_field(field, pair.substr(std::min(colon + 1, pair.size())), second);
    } catch (const UsageError&) {
      throw UsageError(concat(field, ": expected ", expected, ", found '", text, "'"));
    }
    begin += pair.size() + 1;
  }
  return pairs;
}

inline std::string pairs_text(const NumberPairs& pairs) {
  std::string text;
  for (const auto& [first, second] : pairs) text += concat(text.empty() ? "" : ",", first, ":", second);
  return text;
}

inline std::string field_text(bool value) { return value ? "true" : "false"; }
inline std::string field_text(const std::string& value) { return value; }
// Absolute, so that it can be read back from another folder.
inline std::string field_text(const std::filesystem::path& value) {
  return value.empty() ? std::string() : std::filesystem::absolute(value).lexically_normal().string();
}

// The shortest digits that parse back to the same number.
template <class Number>
requires(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>) std::string field_text(Number value) {
  std::array<char, 64> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), result.ptr};
}

template <class Enum>
std::string field_text(Words<Enum> words, Enum value) {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) return std::string(word);
  }
  return {};
}

}  // namespace qkv
