#pragma once
// Filters, tests, global functions and methods.

#include <array>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "qkv/jinja/run/object.h"
#include "qkv/jinja/syntax/syntax.h"

namespace qkv::jinja {

// Null if there is none of this name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
// range, dict, namespace, raise_exception, ...; nothing if there is none of this name.
std::optional<Value> global(std::string_view name);

// The attribute of a value that is no dictionary item: a method of Python's type. Undefined, with the reason,
// for one that the sandbox forbids; nothing if the type has no such attribute.
std::optional<Value> method(Run& run, const Value& self, std::string_view name);

// Arguments by parameter: positional ones, then named ones. Throws through `run` for too many arguments, for
// unknown names and for repeated ones; `what` begins the message.
class Bound {
 public:
  Bound(Run& run, std::string_view what, const Arguments& arguments,
        std::initializer_list<std::string_view> parameters);

  const Value* find(size_t parameter) const { return values_[parameter]; }  // null if it is missing
  const Value& required(size_t parameter) const;
  Value value_or(size_t parameter, const Value& otherwise) const;
  bool truth_or(size_t parameter, bool otherwise) const;
  int64_t integer_or(size_t parameter, int64_t otherwise) const;
  // A text; throws for a value of another type.
  const std::string& text(size_t parameter) const;

 private:
  Run& run_;
  std::string_view what_;
  std::array<std::string_view, 6> parameters_{};
  std::array<const Value*, 6> values_{};
};

}  // namespace qkv::jinja
