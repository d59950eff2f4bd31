// Attributes, items and texts of values.

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/jinja/library/library.h"
#include "qkv/jinja/python/strings.h"
#include "qkv/jinja/run/objects.h"
#include "qkv/jinja/run/operators.h"

namespace qkv::jinja {
namespace {

using Kind = Value::Kind;

Value no_such_attribute(const Value& value, const std::string& name) {
  if (value.is_none()) return Value::undefined("None has no attribute " + string_repr(name));
  return Value::undefined(concat("'", value.type_name(), " object' has no attribute ", string_repr(name)));
}

// getattr(value, name)
std::optional<Value> own_attribute(Run& run, const Value& value, const std::string& name) {
  if (value.kind() == Kind::object) {
    if (std::optional<Value> found = value.object().attribute(run, name)) return found;
  }
  if (name.starts_with("__") && name.ends_with("__") && value.as<Namespace>() == nullptr)
    return Value::undefined(
        concat("access to attribute ", string_repr(name), " of a ", value.type_name(), " object is unsafe."));
  return method(run, value, name);
}

// value[key] for a key that is an integer.
std::optional<Value> at_index(Run& run, const Value& value, int64_t index) {
  const std::optional<int64_t> size = length(run, value);
  if (!size) return std::nullopt;
  if (index < 0) index += *size;
  if (index < 0 || index >= *size) return std::nullopt;
  if (value.is_sequence()) return value.items()[static_cast<size_t>(index)];
  if (const Range* range = value.as<Range>()) return range->start + index * range->step;
  if (!value.is_string()) return std::nullopt;
  const std::string& text = value.string();
  run.step(text.size() / 1024);
  size_t at = 0;
  if (static_cast<size_t>(*size) == text.size())
    at = static_cast<size_t>(index);
  else
    for (; index > 0; --index) next_character(text, at);
  const size_t begin = at;
  next_character(text, at);
  return run.text_like(value, text.substr(begin, at - begin));
}

// value[key]
std::optional<Value> own_item(Run& run, const Value& value, const Value& key) {
  if (value.is_dict()) {
    if (key.is_string()) run.step(key.string().size() / 1024);
    const Value* found = value.dict().find(key);
    if (found == nullptr) return std::nullopt;
    return *found;
  }
  if (key.is_integral()) return at_index(run, value, key.integral());
  return std::nullopt;
}

class Writer {
 public:
  explicit Writer(Run& run) : run_(run) {}

  void add(std::string_view text) {
    run_.check_text(out_.size() + text.size());
    out_ += text;
  }
  void repr(const Value& value) {
    run_.step();
    const Run::Nested nested(run_);
    switch (value.kind()) {
      case Kind::none:
        return add("None");
      case Kind::undefined:
        return add("Undefined");
      case Kind::boolean:
        return add(value.boolean() ? "True" : "False");
      case Kind::integer:
        return add(std::to_string(value.integral()));
      case Kind::number:
        return add(float_repr(value.number()));
      case Kind::string:
        run_.step(value.string().size() / 1024);
        if (value.is_markup()) return add("Markup(" + string_repr(value.string()) + ")");
        return add(string_repr(value.string()));
      case Kind::list:
        return items(value, "[", "]");
      case Kind::tuple:
        return items(value, "(", value.items().size() == 1 ? ",)" : ")");
      case Kind::dict:
        return members(value.dict());
      case Kind::object:
        const std::optional<std::string> text = value.object().repr(run_);
        if (!text) run_.fail(concat("printing a ", value.type_name(), " is not supported"));
        return add(*text);
    }
  }
  std::string take() { return std::move(out_); }

 private:
  void items(const Value& value, const char* open, const char* close) {
    add(open);
    bool first = true;
    for (const Value& item : value.items()) {
      if (!std::exchange(first, false)) add(", ");
      repr(item);
    }
    add(close);
  }
  void members(const Dict& dict) {
    add("{");
    bool first = true;
    for (const auto& [key, item] : dict.items()) {
      if (!std::exchange(first, false)) add(", ");
      repr(key);
      add(": ");
      repr(item);
    }
    add("}");
  }

  Run& run_;
  std::string out_;
};

}  // namespace

std::string repr(Run& run, const Value& value) {
  Writer writer(run);
  writer.repr(value);
  return writer.take();
}

std::string str(Run& run, const Value& value) {
  if (value.is_string()) {
    run.step(value.string().size() / 1024);
    return value.string();
  }
  if (value.is_undefined()) return "";
  return repr(run, value);
}

Value attribute(Run& run, const Value& value, const std::string& name) {
  run.step();
  check_defined(run, value);
  if (std::optional<Value> found = own_attribute(run, value, name)) return *found;
  if (std::optional<Value> found = own_item(run, value, name)) return *found;
  return no_such_attribute(value, name);
}

Value item(Run& run, const Value& value, const Value& key) {
  run.step();
  check_defined(run, value);
  if (std::optional<Value> found = own_item(run, value, key)) return *found;
  if (key.is_string()) {
    if (std::optional<Value> found = own_attribute(run, value, key.string())) return *found;
    return no_such_attribute(value, key.string());
  }
  return Value::undefined(concat(value.type_name(), " object has no element ",
                                 key.is_numeric() ? repr(run, key) : concat("of type ", key.type_name())));
}

}  // namespace qkv::jinja
