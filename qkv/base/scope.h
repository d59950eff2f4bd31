#pragma once
// The current module's path in the model, for errors and profiles.

#include <cstddef>
#include <string>
#include <string_view>

namespace qkv {

// During its lifetime, operations on this thread belong to module `name` within the enclosing scopes:
// "encoder" > "layers.3" > "self_attn" reads as "encoder.layers.3.self_attn". Errors thrown meanwhile begin
// with that path.
class NameScope {
 public:
  explicit NameScope(std::string_view name);
  NameScope(std::string_view name, int index);  // "layers", 3: "layers.3"
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

  static const std::string& current();  // empty outside all scopes

 private:
  size_t outer_length_;
};

}  // namespace qkv
