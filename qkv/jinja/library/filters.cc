// Filters of texts and numbers.

#include "qkv/jinja/library/filters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/jinja/library/json.h"
#include "qkv/jinja/library/methods.h"
#include "qkv/jinja/python/strings.h"
#include "qkv/jinja/run/operators.h"

namespace qkv::jinja {
namespace {

using Args = const Arguments&;
using Kind = Value::Kind;

// markupsafe's soft_str: a text as it is, others by str().
Value soft_text(Run& run, const Value& value) {
  return value.is_string() ? value : run.text(str(run, value));
}

Value string_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "string", args, {});
  return soft_text(run, value);
}

template <std::string (*function)(std::string_view)>
Value mapped_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "a filter without arguments", args, {});
  const Value text = soft_text(run, value);
  run.step(text.string().size() / 64);
  return run.text_like(text, function(text.string()));
}

// Upper case for the first character of each word, where words begin after [-\s({[<].
std::string title_of(std::string_view text) {
  std::string out;
  std::string word;
  const auto flush = [&] {
    size_t first = 0;
    if (!word.empty()) next_character(word, first);
    out += upper(std::string_view(word).substr(0, first)) + lower(std::string_view(word).substr(first));
    word.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (is_space(c) ||
        (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos)) {
      flush();
      out += text.substr(begin, at - begin);
    } else {
      word += text.substr(begin, at - begin);
    }
  }
  flush();
  return out;
}

Value trim(Run& run, const Value& value, Args args) {
  const Bound bound(run, "trim", args, {"chars"});
  const Value text = soft_text(run, value);
  std::optional<std::string_view> characters;
  if (bound.find(0) != nullptr && !bound.find(0)->is_none()) characters = bound.text(0);
  return run.text_like(text, std::string(strip(text.string(), characters)));
}

Value replace_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "replace", args, {"old", "new", "count"});
  const int64_t most = bound.find(2) == nullptr || bound.find(2)->is_none() ? -1 : bound.integer_or(2, -1);
  return run.text(
      replaced(run, str(run, value), str(run, bound.required(0)), str(run, bound.required(1)), most));
}

Value default_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "default", args, {"default_value", "boolean"});
  const bool missing = value.is_undefined() || (bound.truth_or(1, false) && !truth(run, value));
  return missing ? bound.value_or(0, "") : value;
}

Value escape_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "escape", args, {});
  if (value.is_markup()) return value;
  return run.text(escape_html(str(run, value)), /*markup=*/true);
}
Value force_escape(Run& run, const Value& value, Args args) {
  const Bound bound(run, "forceescape", args, {});
  return run.text(escape_html(str(run, value)), /*markup=*/true);
}
Value safe(Run& run, const Value& value, Args args) {
  const Bound bound(run, "safe", args, {});
  return run.text(str(run, value), /*markup=*/true);
}

Value center(Run& run, const Value& value, Args args) {
  const Bound bound(run, "center", args, {"width"});
  const Value text = soft_text(run, value);
  return run.text_like(text, padded(run, text.string(), bound.integer_or(0, 80), 'c', " "));
}

Value indent(Run& run, const Value& value, Args args) {
  const Bound bound(run, "indent", args, {"width", "first", "blank"});
  check_defined(run, value);
  if (!value.is_string()) run.fail(concat("indent: expected a str, found a ", value.type_name()));
  const Value* width = bound.find(0);
  std::string prefix;
  if (width != nullptr && width->is_string())
    prefix = width->string();
  else
    prefix = padded(run, "", bound.integer_or(0, 4), 'r', " ");
  const bool blank = bound.truth_or(2, false);
  run.step(value.string().size() / 64);
  std::string out = bound.truth_or(1, false) ? prefix : "";
  bool first_line = true;
  for (const std::string& line : split_lines(value.string() + "\n", /*keep_ends=*/false)) {
    if (!first_line) out += "\n";
    if (!std::exchange(first_line, false) && (blank || !line.empty())) out += prefix;
    out += line;
    run.check_text(out.size());
  }
  return run.text_like(value, std::move(out));
}

Value wordcount(Run& run, const Value& value, Args args) {
  const Bound bound(run, "wordcount", args, {});
  const Value text = soft_text(run, value);
  run.step(text.string().size() / 64);
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.string().size();) {
    const char32_t c = next_character(text.string(), at);
    const bool word = c == '_' || is_alphabetic(c) || is_numeric(c);
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return words;
}

Value truncate(Run& run, const Value& value, Args args) {
  const Bound bound(run, "truncate", args, {"length", "killwords", "end", "leeway"});
  const int64_t length = bound.integer_or(0, 255);
  const std::string end = bound.find(2) != nullptr ? bound.text(2) : "...";
  const int64_t leeway = bound.find(3) == nullptr || bound.find(3)->is_none() ? 5 : bound.integer_or(3, 5);
  const auto end_size = static_cast<int64_t>(count_characters(end));
  if (length < end_size || leeway < 0)
    run.fail(concat("truncate: expected a length of at least ", end_size,
                    " and a leeway of at least 0, found ", length, " and ", leeway));
  const std::optional<int64_t> size = jinja::length(run, value);
  if (size && *size - length <= leeway) return value;
  if (!value.is_string()) run.fail(concat("truncate: expected a str, found a ", value.type_name()));
  const std::u32string all = decode_utf8(value.string());
  std::u32string kept = all.substr(0, static_cast<size_t>(length - end_size));
  if (!bound.truth_or(1, false)) kept = kept.substr(0, kept.rfind(U' '));
  return run.text_like(value, encode_utf8(kept) + end);
}

std::optional<int64_t> truncated(double value) {
  if (!(std::abs(value) < 0x1p63)) return std::nullopt;
  return static_cast<int64_t>(value);
}
[[noreturn]] void fail_integer(Run& run) {
  run.fail("int: expected an integer of at most 64 bits, found a larger one");
}

Value int_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "int", args, {"default", "base"});
  check_defined(run, value);
  const int64_t base = bound.integer_or(1, 10);
  if (value.is_integral()) return value.integral();
  std::optional<double> number;
  if (value.is_string()) {
    bool overflow = false;
    // Python refuses other bases, and the filter then reads a float.
    std::optional<int64_t> read;
    if (base == 0 || (base >= 2 && base <= 36))
      read = parse_integer(value.string(), static_cast<int>(base), overflow);
    if (overflow) fail_integer(run);
    if (read) return *read;
    number = parse_float(value.string());
  } else if (value.kind() == Kind::number) {
    if (std::isinf(value.number())) run.fail("int: expected a finite number, found an infinite one");
    number = value.number();
  }
  if (!number || !std::isfinite(*number)) return bound.value_or(0, 0);
  const std::optional<int64_t> whole = truncated(*number);
  if (!whole) fail_integer(run);
  return *whole;
}

Value float_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "float", args, {"default"});
  check_defined(run, value);
  if (value.is_numeric()) return value.number();
  if (value.is_string()) {
    if (const std::optional<double> number = parse_float(value.string())) return *number;
  }
  return bound.value_or(0, 0.0);
}

Value abs_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "abs", args, {});
  check_defined(run, value);
  if (value.kind() == Kind::number) return std::abs(value.number());
  if (!value.is_integral()) run.fail(concat("abs: expected a number, found a ", value.type_name()));
  return value.integral() < 0 ? negative(run, value) : Value(value.integral());
}

// round(value, precision) for a precision that is not negative: half to even, of the exact binary value.
double rounded(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 400) return value;
  std::array<char, 800> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(precision), value);
  return std::strtod(buffer.data(), nullptr);
}

Value round_filter(Run& run, const Value& value, Args args) {
  const Bound bound(run, "round", args, {"precision", "method"});
  check_defined(run, value);
  if (!value.is_numeric()) run.fail(concat("round: expected a number, found a ", value.type_name()));
  const int64_t precision = bound.integer_or(0, 0);
  const std::string method = bound.find(1) != nullptr ? bound.text(1) : "common";
  if (method == "common") {
    if (precision < 0) run.fail("round: a negative precision is not supported");
    if (value.is_integral()) return value.integral();
    return rounded(value.number(), precision);
  }
  if (method != "ceil" && method != "floor")
    run.fail("round: method: expected common, ceil or floor, found " + string_repr(method));
  if (precision < 0 || precision > 22) run.fail("round: expected a precision of 0 to 22, found another");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.number() * scale;
  if (!std::isfinite(scaled)) run.fail("round: expected a finite number, found another");
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

Value format_filter(Run& run, const Value& value, Args args) {
  if (!args.positional.empty() && !args.named.empty())
    run.fail("format: expected positional or named arguments, found both");
  const Value text = soft_text(run, value);
  if (text.is_markup()) run.fail("formatting the result of 'safe' is not supported");
  if (args.named.empty()) return run.text(format_percent(run, text.string(), run.tuple(args.positional)));
  Dict named;
  for (const auto& [name, one] : args.named) named.set(name, one);
  return run.text(format_percent(run, text.string(), run.dict(std::move(named))));
}

Value attr(Run& run, const Value& value, Args args) {
  const Bound bound(run, "attr", args, {"name"});
  check_defined(run, value);
  // Not an item of a dictionary.
  const std::string& name = bound.text(0);
  if (value.is_dict()) {
    if (std::optional<Value> found = method(run, value, name)) return *found;
    return Value::undefined("'dict object' has no attribute " + string_repr(name));
  }
  return attribute(run, value, name);
}

constexpr std::array<NamedFilter, 24> kFilters = {{{"abs", abs_filter},
                                                   {"attr", attr},
                                                   {"capitalize", mapped_filter<capitalize>},
                                                   {"center", center},
                                                   {"d", default_filter},
                                                   {"default", default_filter},
                                                   {"e", escape_filter},
                                                   {"escape", escape_filter},
                                                   {"float", float_filter},
                                                   {"forceescape", force_escape},
                                                   {"format", format_filter},
                                                   {"indent", indent},
                                                   {"int", int_filter},
                                                   {"lower", mapped_filter<lower>},
                                                   {"replace", replace_filter},
                                                   {"round", round_filter},
                                                   {"safe", safe},
                                                   {"string", string_filter},
                                                   {"title", mapped_filter<title_of>},
                                                   {"tojson", to_json},
                                                   {"trim", trim},
                                                   {"truncate", truncate},
                                                   {"upper", mapped_filter<upper>},
                                                   {"wordcount", wordcount}}};

}  // namespace

Filter find_filter(std::string_view name) {
  const auto* found = std::find_if(kFilters.begin(), kFilters.end(),
                                   [&](const NamedFilter& one) { return one.first == name; });
  return found != kFilters.end() && !name.empty() ? found->second : find_list_filter(name);
}

}  // namespace qkv::jinja
