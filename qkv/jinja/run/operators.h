#pragma once
// Python's operators and built-in functions on values. All throw through `run` what Python raises.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/jinja/run/run.h"

namespace qkv::jinja {

bool truth(Run& run, const Value& value);
bool equal(Run& run, const Value& a, const Value& b);
bool ordered(Run& run, Operator op, const Value& a, const Value& b);  // lt, le, gt, ge
bool contains(Run& run, const Value& container, const Value& item);
Value arithmetic(Run& run, Operator op, const Value& a, const Value& b);
Value negative(Run& run, const Value& value);

std::string str(Run& run, const Value& value);
std::string repr(Run& run, const Value& value);

// The items that a loop visits: keys of a dictionary, characters of a text.
std::vector<Value> iterate(Run& run, const Value& value);
bool is_iterable(const Value& value);
std::optional<int64_t> length(Run& run, const Value& value);

// jinja2's `value.name` and `value[key]`: an undefined value if there is none.
Value attribute(Run& run, const Value& value, const std::string& name);
Value item(Run& run, const Value& value, const Value& key);

// Throws the undefined value's error.
void check_defined(Run& run, const Value& value);
int64_t to_integer(Run& run, const Value& value, std::string_view what);

// printf-style formatting: text % values.
std::string format_percent(Run& run, const std::string& text, const Value& values);

}  // namespace qkv::jinja
