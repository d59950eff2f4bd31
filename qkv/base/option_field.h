#pragma once
// Options that are described once. A struct of options has a static function
//   visit_fields(self, visit)
// which calls visit(OptionField, member) for each option that a user sets. Checks, the command line, the JSON
// of requests and its OpenAPI description follow from it.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"

namespace qkv {

// A limit in a message: whole numbers without an exponent.
inline std::string limit_text(double number) {
  const bool whole = std::abs(number) < 1e15 && std::trunc(number) == number;
  return whole ? field_text(static_cast<int64_t>(number)) : field_text(number);
}

// The numbers that an option may have. NaN is in no range.
struct Range {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool without_least = false, without_most = false;  // the limits themselves are excluded
  std::string_view expected = {};                    // for messages; empty: as the numbers have it

  constexpr bool contains(double value) const {
    return (without_least ? value > least : value >= least) && (without_most ? value < most : value <= most);
  }
  // "1 to 64", "0 or more", "a number above 0"
  std::string text() const {
    if (!expected.empty()) return std::string(expected);
    const double infinity = std::numeric_limits<double>::infinity();
    if (least == -infinity) return "a finite number";
    if (most == infinity)
      return without_least ? "a number above " + limit_text(least) : limit_text(least) + " or more";
    return concat(without_least ? "above " : "", limit_text(least), " to ", without_most ? "below " : "",
                  limit_text(most));
  }
};
constexpr Range at_least(double least) { return {.least = least}; }
constexpr Range between(double least, double most) { return {.least = least, .most = most}; }
// Numbers are finite.
constexpr Range any_number() { return {.without_least = true, .without_most = true}; }
constexpr Range above(double least) { return {.least = least, .without_least = true, .without_most = true}; }
constexpr Range above(double least, double most) { return {least, most, true}; }
// Shares and rates: 0 to below 1.
constexpr Range below_one() { return {.least = 0, .most = 1, .without_most = true}; }

struct OptionField {
  std::string_view name;        // of the member, in JSON and TOML; --name on the command line
  std::string_view unit;        // of its value: TOKENS, FACTOR
  std::string_view help;        // one line, without its default
  Range range = {};             // of a number
  std::string_view group = {};  // options that belong together; empty: the usual ones
};

// Values with a range, and their number. Durations are options in seconds.
template <class Value>
inline constexpr bool is_number = (std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>) ||
                                  std::is_same_v<Value, std::chrono::milliseconds>;
template <class Value>
auto number_of(const Value& value) {
  if constexpr (std::is_arithmetic_v<Value>) {
    return value;
  } else {
    return std::chrono::duration<double>(value).count();
  }
}

template <class Value>
void require_in_range(std::string_view name, const Value& value, const Range& range) {
  if (!range.contains(static_cast<double>(number_of(value))))
    throw UsageError(concat(name, ": expected ", range.text(), ", found ", number_of(value)));
}

// Throws UsageError naming the first option that is out of its range, what was expected and what was found.
template <class Options>
void require_ranges(const Options& options) {
  Options::visit_fields(options, []<class Value>(const OptionField& field, const Value& value) {
    if constexpr (is_number<Value>) require_in_range(field.name, value, field.range);
  });
}

}  // namespace qkv
