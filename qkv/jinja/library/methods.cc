// Methods of lists, tuples, dictionaries and numbers.

#include "qkv/jinja/library/methods.h"

#include <algorithm>
#include <array>

#include "qkv/base/error.h"
#include "qkv/jinja/run/objects.h"
#include "qkv/jinja/run/operators.h"

namespace qkv::jinja {
namespace {

using Args = const Arguments&;

template <class Names>
bool among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value items_of(Run& run, const Value& self, Args args) {
  const Bound bound(run, "items", args, {});
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict().items()) pairs.push_back(run.tuple({key, value}));
  return run.object<View>("dict_items", run.list(std::move(pairs)));
}
Value keys_of(Run& run, const Value& self, Args args) {
  const Bound bound(run, "keys", args, {});
  std::vector<Value> keys;
  for (const auto& [key, value] : self.dict().items()) keys.push_back(key);
  return run.object<View>("dict_keys", run.list(std::move(keys)));
}
Value values_of(Run& run, const Value& self, Args args) {
  const Bound bound(run, "values", args, {});
  std::vector<Value> values;
  for (const auto& [key, value] : self.dict().items()) values.push_back(value);
  return run.object<View>("dict_values", run.list(std::move(values)));
}
Value get(Run& run, const Value& self, Args args) {
  if (!args.named.empty()) run.fail("get: expected no named arguments, found '" + args.named[0].first + "'");
  const Bound bound(run, "get", args, {"key", "default"});
  const Value& key = bound.required(0);
  if (!key_text(key)) run.fail(concat("get: expected a hashable key, found a ", key.type_name()));
  const Value* found = self.dict().find(key);
  return found != nullptr ? *found : bound.value_or(1, {});
}
Value copy(Run& run, const Value& self, Args args) {
  const Bound bound(run, "copy", args, {});
  return self;
}
Value count_of(Run& run, const Value& self, Args args) {
  const Bound bound(run, "count", args, {"value"});
  int64_t found = 0;
  for (const Value& one : self.items()) found += equal(run, one, bound.required(0)) ? 1 : 0;
  return found;
}
Value index_of(Run& run, const Value& self, Args args) {
  const Bound bound(run, "index", args, {"value"});
  for (size_t i = 0; i < self.items().size(); ++i) {
    if (equal(run, self.items()[i], bound.required(0))) return i;
  }
  run.fail("index: expected a value of the list, found another");
}

constexpr std::array<Method, 6> kDictMethods = {{{"items", items_of},
                                                 {"keys", keys_of},
                                                 {"values", values_of},
                                                 {"get", get},
                                                 {"copy", copy},
                                                 {"fromkeys", nullptr}}};
constexpr std::array<Method, 2> kSequenceMethods = {{{"count", count_of}, {"index", index_of}}};
constexpr std::array kDictChanges = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::array kListChanges = {"append", "clear",  "extend",  "insert",
                                     "pop",    "remove", "reverse", "sort"};
constexpr std::array kRangeAttributes = {"count", "index", "start", "stop", "step"};
constexpr std::array kNumberAttributes = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
    "from_bytes",       "imag",      "numerator",  "real",      "to_bytes"};
constexpr std::array kFloatAttributes = {"as_integer_ratio", "conjugate", "fromhex", "hex", "imag",
                                         "is_integer",       "real"};

Value bound_method(Run& run, const Value& self, std::string_view name, MethodFunction function) {
  if (function == nullptr) {
    return run.object<Function>(
        [what = concat("the attribute '", name, "' of a ", self.type_name(), " is not supported")](
            Run& at, Args /*args*/) -> Value { at.fail(what); });
  }
  return run.object<Function>([self, function](Run& at, Args args) { return function(at, self, args); },
                              self.depth());
}
Value forbidden(const Value& self, std::string_view name) {
  return Value::undefined(
      concat("access to attribute '", name, "' of '", self.type_name(), "' object is unsafe."));
}

}  // namespace

std::optional<Value> method(Run& run, const Value& self, std::string_view name) {
  const auto in = [&](const auto& methods) -> std::optional<Value> {
    const auto* found =
        std::find_if(methods.begin(), methods.end(), [&](const Method& one) { return one.name == name; });
    if (found == methods.end()) return std::nullopt;
    return bound_method(run, self, name, found->function);
  };
  switch (self.kind()) {
    case Value::Kind::string:
      if (const std::optional<MethodFunction> found = string_method(name))
        return bound_method(run, self, name, *found);
      return std::nullopt;
    case Value::Kind::list:
      if (among(kListChanges, name)) return forbidden(self, name);
      if (name == "copy") return bound_method(run, self, name, copy);
      return in(kSequenceMethods);
    case Value::Kind::tuple:
      return in(kSequenceMethods);
    case Value::Kind::dict:
      if (among(kDictChanges, name)) return forbidden(self, name);
      return in(kDictMethods);
    case Value::Kind::boolean:
    case Value::Kind::integer:
      if (name == "real") return self.integral();
      if (among(kNumberAttributes, name)) return bound_method(run, self, name, nullptr);
      return std::nullopt;
    case Value::Kind::number:
      if (name == "real") return self;
      if (among(kFloatAttributes, name)) return bound_method(run, self, name, nullptr);
      return std::nullopt;
    case Value::Kind::object:
      if (self.as<Range>() != nullptr && among(kRangeAttributes, name))
        return bound_method(run, self, name, nullptr);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace qkv::jinja
