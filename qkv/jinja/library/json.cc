#include "qkv/jinja/library/json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/jinja/python/strings.h"
#include "qkv/jinja/run/operators.h"

namespace qkv::jinja {
namespace {

using Kind = Value::Kind;

class JsonWriter {
 public:
  JsonWriter(Run& run, const Arguments& arguments) : run_(run) {
    const Bound bound(run, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
    ascii_ = bound.truth_or(0, false);
    if (const Value* indent = bound.find(1); indent != nullptr && !indent->is_none()) {
      pretty_ = true;
      item_separator_ = ",";
      if (indent->is_string())
        indent_ = indent->string();
      else
        indent_ = padded_indent(to_integer(run, *indent, "tojson: indent"));
    }
    if (const Value* separators = bound.find(2); separators != nullptr && !separators->is_none()) {
      const std::vector<Value> both = iterate(run, *separators);
      if (both.size() != 2 || !both[0].is_string() || !both[1].is_string())
        run.fail("tojson: separators: expected two texts, found another value");
      item_separator_ = both[0].string();
      key_separator_ = both[1].string();
    }
    sort_ = bound.truth_or(3, false);
  }

  void write(const Value& value, int level) {
    run_.step();
    switch (value.kind()) {
      case Kind::none:
        return add("null");
      case Kind::boolean:
        return add(value.boolean() ? "true" : "false");
      case Kind::integer:
        return add(std::to_string(value.integral()));
      case Kind::number:
        return add(number(value.number()));
      case Kind::string:
        return string(value.string());
      case Kind::list:
      case Kind::tuple:
        return items(value.items(), level);
      case Kind::dict:
        return members(value.dict(), level);
      default:
        run_.fail(concat("tojson: expected a value that JSON has, found a ", value.type_name()));
    }
  }
  std::string take() { return std::move(out_); }

 private:
  std::string padded_indent(int64_t width) const {
    if (width <= 0) return "";
    run_.check_text(static_cast<size_t>(width));
    return std::string(static_cast<size_t>(width), ' ');
  }
  void add(std::string_view text) {
    run_.check_text(out_.size() + text.size());
    out_ += text;
  }
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_repr(value);
  }
  void escape(unsigned unit) {
    std::array<char, 8> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "\\u%04x", unit);
    add(buffer.data());
  }
  void string(std::string_view text) {
    constexpr std::string_view kShort = "\"\"\\\\\nn\rr\tt\ff\bb";
    run_.step(text.size() / 256);
    run_.check_text(out_.size() + text.size());
    out_ += '"';
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = next_character(text, at);
      const size_t known = c < 0x80 ? kShort.find(static_cast<char>(c)) : std::string_view::npos;
      if (known != std::string_view::npos && known % 2 == 0) {
        out_ += '\\';
        out_ += kShort[known + 1];
      } else if (c < 0x20 || (ascii_ && c >= 0x7F && c < 0x10000)) {
        escape(c);
      } else if (ascii_ && c >= 0x10000) {
        escape(0xD800 + ((c - 0x10000) >> 10));
        escape(0xDC00 + ((c - 0x10000) & 0x3FF));
      } else {
        out_ += text.substr(begin, at - begin);
      }
    }
    out_ += '"';
    run_.check_text(out_.size());
  }
  void new_line(int level) {
    if (!pretty_) return;
    add("\n");
    for (int i = 0; i < level; ++i) add(indent_);
  }
  void items(const std::vector<Value>& all, int level) {
    if (all.empty()) return add("[]");
    add("[");
    bool first = true;
    for (const Value& one : all) {
      if (!std::exchange(first, false)) add(item_separator_);
      new_line(level + 1);
      write(one, level + 1);
    }
    new_line(level);
    add("]");
  }
  void members(const Dict& dict, int level) {
    if (dict.size() == 0) return add("{}");
    std::vector<const Dict::Item*> all;
    for (const Dict::Item& one : dict.items()) all.push_back(&one);
    if (sort_) {
      std::stable_sort(all.begin(), all.end(), [&](const Dict::Item* a, const Dict::Item* b) {
        return ordered(run_, Operator::lt, a->first, b->first);
      });
    }
    add("{");
    bool first = true;
    for (const Dict::Item* one : all) {
      if (!std::exchange(first, false)) add(item_separator_);
      new_line(level + 1);
      key(one->first);
      add(key_separator_);
      write(one->second, level + 1);
    }
    new_line(level);
    add("}");
  }
  void key(const Value& value) {
    switch (value.kind()) {
      case Kind::string:
        return string(value.string());
      case Kind::none:
        return add("\"null\"");
      case Kind::boolean:
        return add(value.boolean() ? "\"true\"" : "\"false\"");
      case Kind::integer:
        return add('"' + std::to_string(value.integral()) + '"');
      case Kind::number:
        return add('"' + number(value.number()) + '"');
      default:
        run_.fail(
            concat("tojson: expected a str, number, bool or None as a key, found a ", value.type_name()));
    }
  }

  Run& run_;
  bool ascii_ = false, pretty_ = false, sort_ = false;
  std::string indent_, item_separator_ = ", ", key_separator_ = ": ";
  std::string out_;
};

}  // namespace

Value to_json(Run& run, const Value& value, const Arguments& arguments) {
  JsonWriter writer(run, arguments);
  writer.write(value, 0);
  return run.text(writer.take());
}

}  // namespace qkv::jinja
