#pragma once
// Reading a config.json so that nothing in it goes unnoticed.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/kernels/activation.h"

namespace qkv::models {

// The fields of one JSON object. A field that is null counts as one that is not there. All functions throw
// DataError naming the file, the field, what was expected and what was found.
class ConfigReader {
 public:
  // `path` is for messages.
  ConfigReader(const std::string& text, const std::string& path);

  // The objects of a file that is a list of them.
  static std::vector<ConfigReader> list(const std::string& text, const std::string& path);

  bool has(const std::string& key) const;
  // The values of fields; those without `otherwise` have to be there.
  int64_t whole(const std::string& key) const;
  int64_t whole(const std::string& key, int64_t otherwise) const;
  double number(const std::string& key, double otherwise) const;
  bool flag(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  // "gelu", "gelu_new", "relu", "silu" or "tanh", and transformers' other names for the same functions.
  kernels::Activation activation(const std::string& key) const;
  kernels::Activation activation(const std::string& key, const std::string& otherwise) const;
  // A number, or a list of them; empty where there is no such field.
  std::vector<int32_t> ids(const std::string& key) const;
  // The same of numbers.
  std::vector<double> numbers(const std::string& key) const;
  // A list of strings; empty where there is no such field.
  std::vector<std::string> texts(const std::string& key) const;
  // The fields of an object in the order of the file; strings are as they are, other values as JSON. Empty
  // where there is no such field.
  std::vector<std::pair<std::string, std::string>> entries(const std::string& key) const;
  ConfigReader object(const std::string& key) const;
  bool is_object(const std::string& key) const;

  // A field that has to have one value, or not to be there.
  void require_flag(const std::string& key, bool value) const;
  void require_whole(const std::string& key, int64_t value) const;
  void require_text(const std::string& key, const std::string& value) const;

  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const;
  // Refuses the first field that nobody has asked for and that is not in the list.
  void reject_unknown_fields(std::span<const std::string_view> irrelevant) const;
  // The same, but for fields that belong to every model and never say anything about what one computes
  // ("transformers_version").
  void refuse_the_rest_of_a_model(std::span<const std::string_view> irrelevant) const;

 private:
  struct Object;
  explicit ConfigReader(std::shared_ptr<Object> object) : object_(std::move(object)) {}

  std::shared_ptr<Object> object_;
};

// transformers' names for an activation, one of several; nothing for another word.
std::optional<kernels::Activation> activation_of(std::string_view name);
// For those who write one. The name that transformers has for an activation.
const char* activation_name(kernels::Activation activation);
// The shortest decimal number that means this float: 0.2, not 0.20000000298023224.
double decimal(float value);

}  // namespace qkv::models
