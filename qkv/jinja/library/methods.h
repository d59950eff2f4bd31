#pragma once
// Methods of texts and containers, and what they share with filters.

#include <optional>
#include <string>
#include <string_view>

#include "qkv/jinja/library/library.h"
#include "qkv/jinja/run/run.h"

namespace qkv::jinja {

using MethodFunction = Value (*)(Run& run, const Value& self, const Arguments& arguments);
struct Method {
  std::string_view name;
  MethodFunction function;  // null for a method that is not supported
};

// Nothing if Python's str has no such method.
std::optional<MethodFunction> string_method(std::string_view name);
Value format_method(Run& run, const Value& self, const Arguments& arguments);  // str.format

// Python's functions on texts, within the limits.
std::string replaced(Run& run, const std::string& text, const std::string& old, const std::string& with,
                     int64_t most);
// Filled to a width: side 'l' after the text, 'r' before it, 'c' on both sides.
std::string padded(Run& run, std::string_view text, int64_t width, char side, std::string_view fill);
bool has_case(std::string_view text, bool upper);  // str.isupper(), str.islower()

}  // namespace qkv::jinja
