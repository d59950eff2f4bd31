// Methods of Python's str.

#include <algorithm>
#include <array>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/jinja/library/methods.h"
#include "qkv/jinja/python/strings.h"
#include "qkv/jinja/run/operators.h"

namespace qkv::jinja {
namespace {

using Args = const Arguments&;

// A str or None as an argument.
std::optional<std::string_view> text_or_none(const Bound& bound, size_t parameter) {
  const Value* value = bound.find(parameter);
  if (value == nullptr || value->is_none()) return std::nullopt;
  return bound.text(parameter);
}

template <std::string (*function)(std::string_view)>
Value mapped(Run& run, const Value& self, Args args) {
  const Bound bound(run, "a method without arguments", args, {});
  return run.text_like(self, function(self.string()));
}

template <bool left, bool right>
Value stripped(Run& run, const Value& self, Args args) {
  const Bound bound(run, "strip", args, {"chars"});
  return run.text_like(self, std::string(strip(self.string(), text_or_none(bound, 0), left, right)));
}

template <bool right>
Value split_method(Run& run, const Value& self, Args args) {
  const Bound bound(run, right ? "rsplit" : "split", args, {"sep", "maxsplit"});
  const std::optional<std::string_view> separator = text_or_none(bound, 0);
  if (separator && separator->empty())
    run.fail("split: expected a separator that is not empty, found an empty one");
  const int64_t most = bound.integer_or(1, -1);
  run.step(self.string().size() / 16);
  std::vector<Value> parts;
  for (std::string& part :
       right ? split_right(self.string(), separator, most) : split(self.string(), separator, most))
    parts.push_back(run.text_like(self, std::move(part)));
  return run.list(std::move(parts));
}

Value splitlines(Run& run, const Value& self, Args args) {
  const Bound bound(run, "splitlines", args, {"keepends"});
  run.step(self.string().size() / 16);
  std::vector<Value> lines;
  for (std::string& line : split_lines(self.string(), bound.truth_or(0, false)))
    lines.push_back(run.text_like(self, std::move(line)));
  return run.list(std::move(lines));
}

template <bool right>
Value partition(Run& run, const Value& self, Args args) {
  const Bound bound(run, "partition", args, {"sep"});
  const std::string& text = self.string();
  const std::string& separator = bound.text(0);
  if (separator.empty()) run.fail("partition: expected a separator that is not empty, found an empty one");
  const size_t at = right ? text.rfind(separator) : text.find(separator);
  std::array<std::string, 3> parts;
  if (at == std::string::npos)
    parts[right ? 2 : 0] = text;
  else
    parts = {text.substr(0, at), separator, text.substr(at + separator.size())};
  std::vector<Value> values;
  for (std::string& part : parts) values.push_back(run.text_like(self, std::move(part)));
  return run.tuple(std::move(values));
}

// The bytes of text[start:end], as find() and its siblings take them; nothing if start is beyond the end.
struct Part {
  size_t begin, end;  // in bytes
  bool valid = true;
};
Part part_of(Run& run, const std::string& text, const Bound& bound) {
  const auto given = [&](size_t i) { return bound.find(i) != nullptr && !bound.find(i)->is_none(); };
  if (!given(1) && !given(2)) return {0, text.size()};
  run.step(text.size() / 256);
  const auto size = static_cast<int64_t>(count_characters(text));
  const auto position = [&](size_t i, int64_t otherwise) {
    if (!given(i)) return otherwise;
    const int64_t at = bound.integer_or(i, otherwise);
    return at < 0 ? std::max<int64_t>(at + size, 0) : at;
  };
  const int64_t start = position(1, 0);
  const int64_t stop = std::min(position(2, size), size);
  if (start > stop) return {0, 0, false};
  const auto offset = [&](int64_t characters) {
    size_t at = 0;
    for (; characters > 0; --characters) next_character(text, at);
    return at;
  };
  return {offset(start), offset(stop)};
}

template <bool right, bool throws>
Value find_method(Run& run, const Value& self, Args args) {
  const Bound bound(run, throws ? "index" : "find", args, {"sub", "start", "end"});
  const std::string& text = self.string();
  const std::string& wanted = bound.text(0);
  const Part part = part_of(run, text, bound);
  run.step(text.size() / 256);
  size_t at = std::string::npos;
  if (part.valid) {
    const std::string_view within = std::string_view(text).substr(part.begin, part.end - part.begin);
    at = right ? within.rfind(wanted) : within.find(wanted);
  }
  if (at != std::string::npos)
    return static_cast<int64_t>(count_characters(std::string_view(text).substr(0, part.begin + at)));
  if (throws) run.fail("index: expected a part of the text, found another text");
  return -1;
}

Value count_method(Run& run, const Value& self, Args args) {
  const Bound bound(run, "count", args, {"sub", "start", "end"});
  const Part part = part_of(run, self.string(), bound);
  run.step(self.string().size() / 64);
  if (!part.valid) return 0;
  return count(std::string_view(self.string()).substr(part.begin, part.end - part.begin), bound.text(0));
}

template <bool end>
Value affix(Run& run, const Value& self, Args args) {
  const Bound bound(run, end ? "endswith" : "startswith", args, {"prefix", "start", "end"});
  const Value& given = bound.required(0);
  const Part part = part_of(run, self.string(), bound);
  const std::string_view text = std::string_view(self.string()).substr(part.begin, part.end - part.begin);
  const auto fits = [&](const Value& one) {
    check_defined(run, one);
    if (!one.is_string()) run.fail(concat("startswith, endswith: expected a str, found a ", one.type_name()));
    return part.valid && (end ? text.ends_with(one.string()) : text.starts_with(one.string()));
  };
  if (given.kind() != Value::Kind::tuple) return fits(given);
  return std::any_of(given.items().begin(), given.items().end(), fits);
}

template <bool suffix>
Value without_affix(Run& run, const Value& self, Args args) {
  const Bound bound(run, suffix ? "removesuffix" : "removeprefix", args, {"affix"});
  std::string text = self.string();
  const std::string& affix = bound.text(0);
  if (suffix && text.ends_with(affix))
    text.resize(text.size() - affix.size());
  else if (!suffix && text.starts_with(affix))
    text.erase(0, affix.size());
  return run.text_like(self, std::move(text));
}

Value replace_method(Run& run, const Value& self, Args args) {
  const Bound bound(run, "replace", args, {"old", "new", "count"});
  std::string with = bound.text(1);
  if (self.is_markup() && !bound.required(1).is_markup()) with = escape_html(with);
  return run.text_like(self, replaced(run, self.string(), bound.text(0), with, bound.integer_or(2, -1)));
}

Value join_method(Run& run, const Value& self, Args args) {
  const Bound bound(run, "join", args, {"iterable"});
  if (self.is_markup()) run.fail("joining with the result of 'safe' is not supported");
  std::string all;
  bool first = true;
  for (const Value& one : iterate(run, bound.required(0))) {
    if (!one.is_string()) run.fail(concat("join: expected texts, found a ", one.type_name()));
    if (!std::exchange(first, false)) all += self.string();
    all += one.string();
    run.check_text(all.size());
  }
  return run.text(std::move(all));
}

// Fills to a width: 'l' after the text, 'r' before it, 'c' on both sides.
template <char side>
Value filled(Run& run, const Value& self, Args args) {
  const Bound bound(run, "ljust, rjust, center", args, {"width", "fillchar"});
  const std::string fill = bound.find(1) != nullptr ? bound.text(1) : " ";
  if (count_characters(fill) != 1) run.fail("expected one character to fill with, found another text");
  to_integer(run, bound.required(0), "a width");
  return run.text_like(self, padded(run, self.string(), bound.integer_or(0, 0), side, fill));
}

Value zfill(Run& run, const Value& self, Args args) {
  const Bound bound(run, "zfill", args, {"width"});
  const std::string& text = self.string();
  const bool sign = text.starts_with('-') || text.starts_with('+');
  const int64_t width = to_integer(run, bound.required(0), "zfill: width") - (sign ? 1 : 0);
  return run.text_like(
      self, text.substr(0, sign ? 1 : 0) + padded(run, text.substr(sign ? 1 : 0), width, 'r', "0"));
}

// Whether all characters are of a class, and there is one.
template <bool (*class_)(char32_t)>
Value all_are(Run& run, const Value& self, Args args) {
  const Bound bound(run, "a method without arguments", args, {});
  const std::u32string characters = decode_utf8(self.string());
  run.step(characters.size() / 64);
  return !characters.empty() && std::all_of(characters.begin(), characters.end(), class_);
}
// Of the letters with case, one of which must exist.
template <bool upper>
Value all_cased(Run& run, const Value& self, Args args) {
  const Bound bound(run, "a method without arguments", args, {});
  run.step(self.string().size() / 64);
  return has_case(self.string(), upper);
}

bool is_digit_or_letter(char32_t c) { return is_alphabetic(c) || is_numeric(c); }

constexpr std::array<Method, 41> kStringMethods = {{
    {"capitalize", mapped<capitalize>},
    {"center", filled<'c'>},
    {"count", count_method},
    {"endswith", affix<true>},
    {"find", find_method<false, false>},
    {"format", format_method},
    {"index", find_method<false, true>},
    {"isalnum", all_are<is_digit_or_letter>},
    {"isalpha", all_are<is_alphabetic>},
    {"isascii",
     [](Run& /*run*/, const Value& self, Args /*args*/) -> Value { return is_ascii(self.string()); }},
    {"isdecimal", all_are<is_decimal>},
    {"isdigit", all_are<is_digit_character>},
    {"islower", all_cased<false>},
    {"isnumeric", all_are<is_numeric>},
    {"isprintable",
     [](Run& /*run*/, const Value& self, Args /*args*/) -> Value {
       const std::u32string characters = decode_utf8(self.string());
       return std::all_of(characters.begin(), characters.end(), is_printable);
     }},
    {"isspace", all_are<is_space>},
    {"isupper", all_cased<true>},
    {"join", join_method},
    {"ljust", filled<'l'>},
    {"lower", mapped<lower>},
    {"lstrip", stripped<true, false>},
    {"partition", partition<false>},
    {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>},
    {"replace", replace_method},
    {"rfind", find_method<true, false>},
    {"rindex", find_method<true, true>},
    {"rjust", filled<'r'>},
    {"rpartition", partition<true>},
    {"rsplit", split_method<true>},
    {"rstrip", stripped<false, true>},
    {"split", split_method<false>},
    {"splitlines", splitlines},
    {"startswith", affix<false>},
    {"strip", stripped<true, true>},
    {"swapcase", mapped<swap_case>},
    {"title", mapped<title>},
    {"upper", mapped<upper>},
    {"zfill", zfill},
    // Others of Python's.
    {"casefold", nullptr},
    {"encode", nullptr},
}};
constexpr std::array kOtherStringMethods = {"expandtabs", "format_map", "isidentifier",
                                            "istitle",    "maketrans",  "translate"};

}  // namespace

std::optional<MethodFunction> string_method(std::string_view name) {
  const auto* found = std::find_if(kStringMethods.begin(), kStringMethods.end(),
                                   [&](const Method& one) { return one.name == name; });
  if (found != kStringMethods.end()) return found->function;
  if (std::find(kOtherStringMethods.begin(), kOtherStringMethods.end(), name) != kOtherStringMethods.end())
    return MethodFunction{nullptr};
  return std::nullopt;
}

std::string replaced(Run& run, const std::string& text, const std::string& old, const std::string& with,
                     int64_t most) {
  run.step(text.size() / 64);
  const int64_t found = count(text, old);
  const auto times = static_cast<size_t>(most < 0 ? found : std::min(found, most));
  if (with.size() > old.size()) {
    const size_t more = with.size() - old.size();
    run.check_text(more > run.limits().output_bytes / (times + 1)
                       ? text.size() + run.limits().output_bytes / 2 * 3
                       : text.size() + more * times);
  }
  return replace(text, old, with, most);
}

std::string padded(Run& run, std::string_view text, int64_t width, char side, std::string_view fill) {
  const auto size = static_cast<int64_t>(count_characters(text));
  if (width <= size) return std::string(text);
  run.check_text(text.size() + static_cast<size_t>(width - size));
  const int64_t all = width - size;
  // Python puts the odd character of center() before the text if the width is odd.
  const int64_t before = side == 'r' ? all : side == 'l' ? 0 : all / 2 + (all & width & 1);
  std::string made;
  for (int64_t i = 0; i < before; ++i) made += fill;
  made += text;
  for (int64_t i = before; i < all; ++i) made += fill;
  return made;
}

bool has_case(std::string_view text, bool upper) {
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (upper ? is_lower(c) : is_upper(c)) return false;
    if (is_title_case(c)) return false;
    any |= upper ? is_upper(c) : is_lower(c);
  }
  return any;
}

}  // namespace qkv::jinja
