#include "qkv/jinja/value.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/jinja/run/object.h"

namespace qkv::jinja {
namespace {

constexpr size_t kMaxKeyBytes = size_t{1} << 20;

// Appends the key; false if it is not hashable. The bound on its length also bounds the time for tuples that
// contain a tuple many times.
bool append_key(const Value& value, std::string& key) {
  if (key.size() > kMaxKeyBytes && !value.is_string()) return false;
  switch (value.kind()) {
    case Value::Kind::none:
      key += 'N';
      return true;
    case Value::Kind::undefined:
      key += 'u';
      return true;
    case Value::Kind::boolean:
    case Value::Kind::integer:
      key += 'i' + std::to_string(value.integral());
      return true;
    case Value::Kind::number: {
      const double number = value.number();
      if (std::abs(number) < 0x1p63 && number == std::floor(number))
        key += 'i' + std::to_string(static_cast<int64_t>(number));
      else
        key += 'f' + std::to_string(std::bit_cast<uint64_t>(number));
      return true;
    }
    case Value::Kind::string:
      key += 's' + value.string();
      return true;
    case Value::Kind::tuple:
      key += '(';
      for (const Value& item : value.items()) {
        std::string part;
        if (!append_key(item, part) || key.size() + part.size() > kMaxKeyBytes) return false;
        key += std::to_string(part.size()) + ':' + part;
      }
      key += ')';
      return true;
    case Value::Kind::object:
      key += 'o' + std::to_string(std::bit_cast<uintptr_t>(value.identity()));
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<std::string> key_text(const Value& value) {
  std::string key;
  if (!append_key(value, key)) return std::nullopt;
  return key;
}

Value::Value(std::string_view text)
    : data_(std::make_shared<const Text>(Text{.bytes = std::string(text), .charge = {}})) {}

Value::Value(Dict dict) : data_(std::make_shared<const Dict>(std::move(dict))) {}

Value Value::of(std::shared_ptr<const Sequence> items, bool tuple) {
  return tuple ? Value(Data(Tuple{std::move(items)})) : Value(Data(List{std::move(items)}));
}

Value Value::list(std::vector<Value> items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return of(std::make_shared<const Sequence>(Sequence{std::move(items), depth + 1, {}}));
}

Value Value::undefined(std::string why) {
  return Value(Data(UndefinedData{std::make_shared<const std::string>(std::move(why))}));
}

Value Value::of_json(const JsonValue& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.boolean();
  if (json.is_integer()) return json.integer();
  if (json.is_number()) return json.number();
  if (json.is_string()) return json.string();
  if (json.is_array()) {
    std::vector<Value> items;
    for (const JsonValue& item : json.items()) items.push_back(of_json(item));
    return list(std::move(items));
  }
  Dict dict;
  json.members([&](std::string_view key, const JsonValue& value) { dict.set(key, of_json(value)); });
  return dict;
}

int64_t Value::integral() const { return is_boolean() ? int64_t{boolean()} : std::get<int64_t>(data_); }

double Value::number() const {
  const double* number = std::get_if<double>(&data_);
  return number != nullptr ? *number : static_cast<double>(integral());
}

const Sequence& Value::sequence() const {
  if (const List* list = std::get_if<List>(&data_)) return *list->sequence;
  return *std::get<Tuple>(data_).sequence;
}

int Value::depth() const {
  switch (kind()) {
    case Kind::list:
    case Kind::tuple:
      return sequence().depth;
    case Kind::dict:
      return dict().depth();
    case Kind::object:
      return object().depth();
    default:
      return 0;
  }
}

const void* Value::identity() const {
  switch (kind()) {
    case Kind::string:
      return &text();
    case Kind::list:
    case Kind::tuple:
      return &sequence();
    case Kind::dict:
      return &dict();
    case Kind::object:
      return &object();
    default:
      return nullptr;
  }
}

const char* Value::type_name() const {
  constexpr const char* kNames[] = {"NoneType", "Undefined", "bool",  "int",  "float",
                                    "str",      "list",      "tuple", "dict", ""};
  if (is_markup()) return "Markup";
  return kind() == Kind::object ? object().type() : kNames[static_cast<size_t>(kind())];
}

void Dict::set(const Value& key, Value value) {
  const std::optional<std::string> text = key_text(key);
  if (!text)
    throw UsageError(concat("a key of a dictionary: expected a hashable value, found a ", key.type_name()));
  depth_ = std::max({depth_, value.depth() + 1, key.depth() + 1});
  const auto [at, added] = index_.emplace(*text, items_.size());
  if (added)
    items_.emplace_back(key, std::move(value));
  else
    items_[at->second].second = std::move(value);
}

const Value* Dict::find(const Value& key) const {
  const std::optional<std::string> text = key_text(key);
  if (!text) return nullptr;
  const auto found = index_.find(*text);
  return found == index_.end() ? nullptr : &items_[found->second].second;
}

}  // namespace qkv::jinja
