#pragma once
// Values that are neither scalars, texts nor plain containers.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/jinja/value.h"

namespace qkv::jinja {

class Run;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  virtual const char* type() const = 0;  // Python's name of the type
  virtual int depth() const { return 1; }
  virtual bool truth() const { return true; }
  virtual bool callable() const { return false; }
  virtual Value call(Run& run, const Arguments& arguments);
  // A public attribute; nothing if it does not exist.
  virtual std::optional<Value> attribute(Run& run, std::string_view name);
  // The items that a loop visits; nothing if the type is not iterable. Consumes an iterator.
  virtual std::optional<std::vector<Value>> iterate(Run& run);
  virtual bool iterable() const { return false; }
  // Nothing if the type has no length.
  virtual std::optional<int64_t> length(Run& run);
  // Python's repr(); nothing if it would show an address.
  virtual std::optional<std::string> repr(Run& run);
};

}  // namespace qkv::jinja
