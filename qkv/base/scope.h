#pragma once
// Where in a model the program is: the module names that errors and profiles give.

#include <cstddef>
#include <string>
#include <string_view>

namespace qkv {

// While it lives, operations on this thread belong to the module `name`, inside the scopes that surround it:
// "encoder" > "layers.3" > "self_attn" reads as "encoder.layers.3.self_attn". Errors thrown meanwhile begin
// with that path.
class NameScope {
 public:
  explicit NameScope(std::string_view name);
  NameScope(std::string_view name, int index);  // "layers", 3: "layers.3"
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

  static const std::string& current();  // empty outside of all scopes

 private:
  size_t outer_length_;
};

}  // namespace qkv
