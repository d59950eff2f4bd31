#pragma once
// Where in a model the program is: names that errors and profiles can give.

#include <string>
#include <string_view>

namespace qkv {

// While it lives, operations on this thread belong to `name`, inside whatever scopes surround it:
// "encoder" > "layers.3" > "self_attn" reads as "encoder.layers.3.self_attn".
class NameScope {
 public:
  explicit NameScope(std::string_view name);
  NameScope(std::string_view name, int index);  // "layers", 3: "layers.3"
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

  static const std::string& current();

 private:
  size_t outer_length_;
};

}  // namespace qkv
