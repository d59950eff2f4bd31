// Formatting of texts: str % values, and str.format().

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/jinja/library/methods.h"
#include "qkv/jinja/python/strings.h"
#include "qkv/jinja/run/objects.h"
#include "qkv/jinja/run/operators.h"

namespace qkv::jinja {
namespace {

constexpr int64_t kMaxPrecision = 300;

// A format specification of either kind.
struct Spec {
  std::string fill = " ";
  char align = ' ';  // '<', '>', '^', '=', ' ' for the default of the type
  char sign = '-';   // '-', '+', ' '
  char group = ' ';  // ',', '_'
  bool alternate = false;
  int64_t width = 0;
  int64_t precision = -1;
  char type = ' ';
};

int64_t read_number(Run& run, std::string_view text, size_t& at) {
  int64_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > INT32_MAX) run.fail("a format: expected a width or precision of 31 bits, found a larger one");
  }
  return value;
}

// Between sign and digits for '=', else around all.
std::string aligned(Run& run, const Spec& spec, std::string_view sign, std::string_view body,
                    char otherwise) {
  const char align = spec.align == ' ' ? otherwise : spec.align;
  const std::string all = std::string(sign) + std::string(body);
  if (align == '=') {
    const auto size = static_cast<int64_t>(count_characters(sign));
    return std::string(sign) + padded(run, body, spec.width - size, 'r', spec.fill);
  }
  if (align != '^') return padded(run, all, spec.width, align == '<' ? 'l' : 'r', spec.fill);
  const int64_t size = static_cast<int64_t>(count_characters(all));
  const int64_t before = spec.width > size ? (spec.width - size) / 2 : 0;
  return padded(run, padded(run, all, size + before, 'r', spec.fill), spec.width, 'l', spec.fill);
}

std::string grouped(std::string digits, char separator, size_t every) {
  if (separator == ' ') return digits;
  const size_t end = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (size_t at = end; at > every; at -= every) digits.insert(at - every, 1, separator);
  return digits;
}

std::string sign_of(bool negative, char sign) {
  if (negative) return "-";
  return sign == '-' ? "" : std::string(1, sign);
}

std::string integer_text(Run& run, const Spec& spec, int64_t value) {
  uint64_t rest = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const unsigned base = spec.type == 'x' || spec.type == 'X' ? 16
                        : spec.type == 'o'                   ? 8
                        : spec.type == 'b'                   ? 2
                                                             : 10;
  std::string digits;
  const char* const figures = spec.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  do digits += figures[rest % base];
  while ((rest /= base) > 0);
  std::reverse(digits.begin(), digits.end());
  if (spec.precision > 0) digits = padded(run, digits, spec.precision, 'r', "0");
  std::string sign = sign_of(value < 0, spec.sign);
  if (spec.alternate && base != 10) sign.append(1, '0').append(1, spec.type);
  return aligned(run, spec, sign, grouped(std::move(digits), spec.group, base == 10 ? 3 : 4), '>');
}

std::string float_text(Run& run, const Spec& spec, double value) {
  if (spec.precision > kMaxPrecision)
    run.fail(concat("a format: expected a precision of at most ", kMaxPrecision, ", found ", spec.precision));
  char type = spec.type == ' ' ? 'r' : spec.type;
  std::string suffix;
  double magnitude = std::abs(value);
  if (type == '%') {
    magnitude *= 100;
    type = 'f';
    suffix = "%";
  }
  std::string digits;
  if (!std::isfinite(magnitude)) {
    digits = std::isnan(magnitude) ? "nan" : "inf";
    if (type == 'F' || type == 'E' || type == 'G') digits = upper(digits);
  } else if (type == 'r' && spec.precision < 0) {
    digits = float_repr(magnitude);
  } else {
    std::array<char, 1024> buffer{};
    const std::string format =
        std::string("%") + (spec.alternate ? "#" : "") + ".*" + (type == 'r' ? 'g' : type);
    std::snprintf(buffer.data(), buffer.size(), format.c_str(),
                  static_cast<int>(spec.precision < 0 ? 6 : spec.precision), magnitude);
    digits = buffer.data();
    if (type == 'r') run.fail("a format: a precision without a type is not supported");
  }
  const bool negative = std::signbit(value) && !std::isnan(value);
  return aligned(run, spec, sign_of(negative, spec.sign), grouped(digits, spec.group, 3) + suffix, '>');
}

std::string cut(std::string_view text, int64_t characters) {
  if (characters < 0) return std::string(text);
  size_t at = 0;
  for (; characters > 0 && at < text.size(); --characters) next_character(text, at);
  return std::string(text.substr(0, at));
}

// "%(name)-05.2f": one conversion, after the '%'.
class Percent {
 public:
  Percent(Run& run, std::string_view text, const Value& values) : run_(run), text_(text), values_(values) {}

  std::string format() {
    std::string out;
    for (size_t at = 0; at < text_.size();) {
      if (text_[at] != '%') {
        out += text_[at++];
        continue;
      }
      ++at;
      out += conversion(at);
      run_.check_text(out.size());
    }
    // Python does not check what has items by key or index, which it takes for a mapping.
    const bool single = values_.is_none() || values_.is_numeric() || values_.is_string() ||
                        (values_.kind() == Value::Kind::object && values_.as<Range>() == nullptr);
    const size_t given = values_.kind() == Value::Kind::tuple ? values_.items().size() : single ? 1 : 0;
    if (!named_ && used_ < given) run_.fail("a format: expected as many values as conversions, found more");
    return out;
  }

 private:
  Value next() {
    const size_t index = used_++;
    if (values_.kind() == Value::Kind::tuple && index < values_.items().size()) return values_.items()[index];
    if (values_.kind() != Value::Kind::tuple && index == 0) return values_;
    run_.fail("a format: expected as many values as conversions, found fewer");
  }

  std::string conversion(size_t& at) {
    std::optional<Value> named;
    if (at < text_.size() && text_[at] == '(') {
      const size_t close = text_.find(')', at);
      if (close == std::string_view::npos) run_.fail("a format: expected ')' after a name, found none");
      if (!values_.is_dict())
        run_.fail("a format: expected a dict for a conversion with a name, found another value");
      const Value* found = values_.dict().find(text_.substr(at + 1, close - at - 1));
      if (found == nullptr)
        run_.fail(concat("a format: no value for '", text_.substr(at + 1, close - at - 1), "'"));
      named = *found;
      named_ = true;
      at = close + 1;
    }
    Spec spec;
    bool zero = false;
    spec.align = '>';
    for (; at < text_.size() && std::string_view("#0- +").find(text_[at]) != std::string_view::npos; ++at) {
      const char flag = text_[at];
      if (flag == '#') spec.alternate = true;
      if (flag == '0') zero = true;
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign == '-')) spec.sign = flag;
    }
    if (at < text_.size() && text_[at] == '*') run_.fail("a format: a width '*' is not supported");
    spec.width = read_number(run_, text_, at);
    if (at < text_.size() && text_[at] == '.') {
      ++at;
      spec.precision = read_number(run_, text_, at);
    }
    while (at < text_.size() && std::string_view("hlL").find(text_[at]) != std::string_view::npos) ++at;
    if (at >= text_.size()) run_.fail("a format: expected a conversion after '%', found the end");
    spec.type = text_[at++];
    if (spec.type == '%') return "%";
    const Value value = named ? *named : next();
    if (spec.type == 's' || spec.type == 'r')
      return aligned(run_, spec, "",
                     cut(spec.type == 's' ? str(run_, value) : repr(run_, value), spec.precision), '>');
    check_defined(run_, value);
    if (zero && spec.align != '<') {
      spec.align = '=';
      spec.fill = "0";
    }
    switch (spec.type) {
      case 'd':
      case 'i':
      case 'u':
        spec.type = 'd';
        return integer_text(run_, spec, whole(value));
      case 'x':
      case 'X':
      case 'o':
        return integer_text(run_, spec, to_integer(run_, value, "a format"));
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!value.is_numeric())
          run_.fail(concat("a format: expected a number, found a ", value.type_name()));
        return float_text(run_, spec, value.number());
      case 'c':
        if (value.is_string() && count_characters(value.string()) == 1)
          return aligned(run_, spec, "", value.string(), '>');
        [[fallthrough]];
      default:
        run_.fail(concat("a format: the conversion '%", spec.type, "' of a ", value.type_name(),
                         " is not supported"));
    }
  }
  int64_t whole(const Value& value) {
    if (value.is_integral()) return value.integral();
    if (value.kind() == Value::Kind::number && std::abs(value.number()) < 0x1p63)
      return static_cast<int64_t>(value.number());
    run_.fail(concat("a format: expected a number of at most 64 bits, found a ", value.type_name()));
  }

  Run& run_;
  std::string_view text_;
  const Value& values_;
  size_t used_ = 0;
  bool named_ = false;
};

// "{0.name[key]!r:>10}": str.format().
class Braces {
 public:
  Braces(Run& run, std::string_view text, const Arguments& arguments)
      : run_(run), text_(text), arguments_(arguments) {}

  std::string format() {
    std::string out;
    for (size_t at = 0; at < text_.size();) {
      const char c = text_[at++];
      const bool twice = at < text_.size() && text_[at] == c;
      if ((c == '{' || c == '}') && twice) {
        out += c;
        ++at;
      } else if (c == '}') {
        run_.fail("a format: expected '{' before '}', found none");
      } else if (c == '{') {
        const size_t close = text_.find('}', at);
        const std::string_view field = text_.substr(at, close == std::string_view::npos ? 0 : close - at);
        if (close == std::string_view::npos) run_.fail("a format: expected '}' after '{', found none");
        if (field.find('{') != std::string_view::npos) run_.fail("a format: nested fields are not supported");
        out += replacement(field);
        at = close + 1;
      } else {
        out += c;
      }
      run_.check_text(out.size());
    }
    return out;
  }

 private:
  std::string replacement(std::string_view field) {
    const size_t colon = field.find(':');
    std::string_view specification = colon == std::string_view::npos ? "" : field.substr(colon + 1);
    std::string_view path = field.substr(0, colon);
    char conversion = ' ';
    if (const size_t mark = path.find('!'); mark != std::string_view::npos) {
      if (path.size() != mark + 2) run_.fail("a format: expected one letter after '!', found another text");
      conversion = path.back();
      path = path.substr(0, mark);
    }
    Value value = found(path);
    if (conversion == 's')
      value = run_.text(str(run_, value));
    else if (conversion == 'r')
      value = run_.text(repr(run_, value));
    else if (conversion != ' ')
      run_.fail(concat("a format: the conversion '!", conversion, "' is not supported"));
    return formatted(value, specification);
  }

  Value found(std::string_view path) {
    size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = first(path.substr(0, end));
    while (end < path.size()) {
      const bool item_follows = path[end] == '[';
      const size_t begin = end + 1;
      const size_t stop =
          std::min(item_follows ? path.find(']', begin) : path.find_first_of(".[", begin), path.size());
      if (item_follows && stop == path.size()) run_.fail("a format: expected ']' after '[', found none");
      const std::string name(path.substr(begin, stop - begin));
      if (name.empty()) run_.fail("a format: expected a name in a field, found none");
      end = stop + (item_follows ? 1 : 0);
      if (item_follows && end < path.size() && path[end] != '.' && path[end] != '[')
        run_.fail("a format: expected '.' or '[' after ']', found another character");
      bool overflow = false;
      const bool digits = name.find_first_not_of("0123456789") == std::string::npos;
      const std::optional<int64_t> index = digits ? parse_integer(name, 10, overflow) : std::nullopt;
      value = !item_follows ? attribute(run_, value, name)
                            : item(run_, value, index ? Value(*index) : Value(name));
    }
    return value;
  }
  Value first(std::string_view name) {
    if (name.find_first_not_of("0123456789") != std::string_view::npos) {
      for (const auto& [known, value] : arguments_.named) {
        if (known == name) return value;
      }
      run_.fail(concat("a format: no value for '", name, "'"));
    }
    bool overflow = false;
    const bool numbered = !name.empty();
    if (std::exchange(numbered_, numbered).value_or(numbered) != numbered)
      run_.fail("a format: expected fields that are all numbered or none, found both");
    const int64_t index = numbered ? parse_integer(name, 10, overflow).value_or(INT64_MAX) : next_++;
    if (overflow || index >= static_cast<int64_t>(arguments_.positional.size()))
      run_.fail(concat("a format: no value for field ", name.empty() ? "{}" : name));
    return arguments_.positional[static_cast<size_t>(index)];
  }

  std::string formatted(const Value& value, std::string_view text) {
    if (text.empty()) return str(run_, value);
    Spec spec;
    size_t at = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    size_t fill_end = 0;
    next_character(text, fill_end);
    if (fill_end < text.size() && is_align(text[fill_end])) {
      spec.fill = std::string(text.substr(0, fill_end));
      spec.align = text[fill_end];
      at = fill_end + 1;
    } else if (is_align(text[0])) {
      spec.align = text[at++];
    }
    const auto take = [&](std::string_view among, char otherwise) {
      return at < text.size() && among.find(text[at]) != std::string_view::npos ? text[at++] : otherwise;
    };
    spec.sign = take("+- ", '\0');
    const bool sign = spec.sign != '\0';
    if (!sign) spec.sign = '-';
    spec.alternate = take("#", ' ') == '#';
    const bool zero = take("0", ' ') == '0';
    spec.width = read_number(run_, text, at);
    spec.group = take(",_", ' ');
    if (take(".", ' ') == '.') spec.precision = read_number(run_, text, at);
    spec.type = take("bcdeEfFgGnosxX%", ' ');
    if (at != text.size())
      run_.fail("a format: the specification " + string_repr(text) + " is not supported");
    if (zero && spec.align == ' ') {
      spec.fill = "0";
      if (value.is_numeric()) spec.align = '=';
    }
    const bool real = value.kind() == Value::Kind::number ||
                      std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
    if (value.is_string()) {
      if (sign || spec.alternate || spec.group != ' ' || spec.align == '=' ||
          (spec.type != ' ' && spec.type != 's'))
        run_.fail("a format: expected a specification that fits a str, found " + string_repr(text));
      return aligned(run_, spec, "", cut(value.string(), spec.precision), '<');
    }
    const bool known = real ? std::string_view(" eEfFgG%").find(spec.type) != std::string_view::npos
                            : std::string_view(" bdoxX").find(spec.type) != std::string_view::npos;
    if (!value.is_numeric() || !known || (spec.group != ' ' && zero) || (!real && spec.precision >= 0))
      run_.fail(concat("a format: the specification ", string_repr(text), " of a ", value.type_name(),
                       " is not supported"));
    return real ? float_text(run_, spec, value.number()) : integer_text(run_, spec, value.integral());
  }

  Run& run_;
  std::string_view text_;
  const Arguments& arguments_;
  int64_t next_ = 0;
  std::optional<bool> numbered_;
};

}  // namespace

std::string format_percent(Run& run, const std::string& text, const Value& values) {
  return Percent(run, text, values).format();
}

Value format_method(Run& run, const Value& self, const Arguments& arguments) {
  if (self.is_markup()) run.fail("formatting the result of 'safe' is not supported");
  return run.text(Braces(run, self.string(), arguments).format());
}

}  // namespace qkv::jinja
