#pragma once
// Values of templates, with the semantics of Python's types that jinja2 works on.

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "qkv/base/json.h"

namespace qkv::jinja {

class Dict;
class Object;
class Value;

// Memory that the values of one rendering hold.
struct Budget {
  size_t limit = 0;
  size_t used = 0;
};

// A share of a budget, returned with the object.
class Charge {
 public:
  Charge() = default;
  Charge(Budget& budget, size_t bytes) : budget_(&budget), bytes_(bytes) { budget.used += bytes; }
  Charge(Charge&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
  Charge& operator=(Charge&&) = delete;
  ~Charge() {
    if (budget_ != nullptr) budget_->used -= bytes_;
  }

 private:
  Budget* budget_ = nullptr;
  size_t bytes_ = 0;
};

struct Text {
  std::string bytes;    // valid UTF-8
  bool markup = false;  // result of the filters `safe` and `escape`: markupsafe.Markup
  Charge charge;
};

struct Sequence {
  std::vector<Value> items;
  int depth = 1;  // 1 + the largest depth of an item
  Charge charge;
};

// A value. Cheap to copy: texts and containers are shared and never change.
class Value {
 public:
  enum class Kind { none, undefined, boolean, integer, number, string, list, tuple, dict, object };

  Value() = default;  // None
  template <std::same_as<bool> T>
  Value(T value) : data_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Value(T value) : data_(static_cast<int64_t>(value)) {}
  Value(double value) : data_(value) {}
  Value(std::string_view text);
  Value(const std::string& text) : Value(std::string_view(text)) {}
  Value(const char* text) : Value(std::string_view(text)) {}
  Value(Dict dict);
  static Value list(std::vector<Value> items);
  // Throws DataError for an integer beyond 64 bits.
  static Value of_json(const JsonValue& json);
  // jinja2's Undefined; `why` is the message of the error that most uses of it throw.
  static Value undefined(std::string why);

  // For the interpreter.
  static Value of(std::shared_ptr<const Text> text) { return Value(Data(std::move(text))); }
  static Value of(std::shared_ptr<const Sequence> items, bool tuple = false);
  static Value of(std::shared_ptr<const Dict> dict) { return Value(Data(std::move(dict))); }
  static Value of(std::shared_ptr<Object> object) { return Value(Data(std::move(object))); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_none() const { return kind() == Kind::none; }
  bool is_undefined() const { return kind() == Kind::undefined; }
  bool is_boolean() const { return kind() == Kind::boolean; }
  bool is_string() const { return kind() == Kind::string; }
  bool is_dict() const { return kind() == Kind::dict; }
  bool is_sequence() const { return kind() == Kind::list || kind() == Kind::tuple; }
  bool is_integral() const { return kind() == Kind::integer || kind() == Kind::boolean; }
  bool is_numeric() const { return is_integral() || kind() == Kind::number; }
  bool is_markup() const { return is_string() && text().markup; }

  // The accessors require the kind.
  const std::string& why() const { return *std::get<UndefinedData>(data_).why; }
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integral() const;  // of an integer or a boolean
  double number() const;     // of any numeric value
  const Text& text() const { return *std::get<std::shared_ptr<const Text>>(data_); }
  const std::string& string() const { return text().bytes; }
  const std::vector<Value>& items() const { return sequence().items; }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Object& object() const { return *std::get<std::shared_ptr<Object>>(data_); }
  template <class T>
  T* as() const {  // null if it is no object of this class
    const auto* object = std::get_if<std::shared_ptr<Object>>(&data_);
    return object == nullptr ? nullptr : dynamic_cast<T*>(object->get());
  }

  int depth() const;              // nesting of containers
  const void* identity() const;   // of a shared value; null for scalars
  const char* type_name() const;  // Python's: "str"

 private:
  struct UndefinedData {
    std::shared_ptr<const std::string> why;
  };
  struct List {
    std::shared_ptr<const Sequence> sequence;
  };
  struct Tuple {
    std::shared_ptr<const Sequence> sequence;
  };
  using Data = std::variant<std::monostate, UndefinedData, bool, int64_t, double, std::shared_ptr<const Text>,
                            List, Tuple, std::shared_ptr<const Dict>, std::shared_ptr<Object>>;
  explicit Value(Data data) : data_(std::move(data)) {}
  const Sequence& sequence() const;

  Data data_;
};

// A dictionary in order of insertion. Keys are hashable values; 1, 1.0 and True are the same key, as in
// Python.
class Dict {
 public:
  using Item = std::pair<Value, Value>;

  // Replaces the value of an existing key. Throws UsageError for a key that is not hashable.
  void set(const Value& key, Value value);
  // Null if the key is missing or not hashable.
  const Value* find(const Value& key) const;
  const std::vector<Item>& items() const { return items_; }
  size_t size() const { return items_.size(); }
  int depth() const { return depth_; }

  void hold(Charge charge) { charge_ = std::make_shared<Charge>(std::move(charge)); }

 private:
  std::vector<Item> items_;
  std::unordered_map<std::string, size_t> index_;
  int depth_ = 1;
  std::shared_ptr<Charge> charge_;
};

// The text that identifies a hashable value as a key; nothing for a list, a dictionary, or a tuple of those.
std::optional<std::string> key_text(const Value& value);

}  // namespace qkv::jinja
