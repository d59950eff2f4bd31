#pragma once
// Reading a config.json so that nothing in it is overlooked.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/base/json.h"
#include "qkv/kernels/activation.h"

namespace qkv::models {

// The fields of one JSON object, and which of them were read. A field that is null counts as missing. All
// functions throw DataError naming the file, the field, what was expected and what was found.
class ConfigReader {
 public:
  // `path` is for messages.
  ConfigReader(std::string_view text, const std::string& path);

  // The objects of a file that is a list of them.
  static std::vector<ConfigReader> list(std::string_view text, const std::string& path);

  bool has(std::string_view key) const;
  // The values of fields; without `otherwise` the field is required. Integers are those of 32 bits: sizes and
  // ids, whose products fit into 64.
  int64_t integer(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t otherwise) const;
  double number(std::string_view key, double otherwise) const;
  bool boolean(std::string_view key, bool otherwise) const;
  std::string string(std::string_view key) const;
  std::string string(std::string_view key, const std::string& otherwise) const;
  // "gelu", "gelu_new", "relu", "silu" or "tanh", and transformers' other names for the same functions.
  kernels::Activation activation(std::string_view key) const;
  kernels::Activation activation(std::string_view key, const std::string& otherwise) const;
  // A token's id, or a list of them; empty where the field is missing.
  std::vector<int32_t> ids(std::string_view key) const;
  // A number, or a list of them; empty where the field is missing.
  std::vector<double> numbers(std::string_view key) const;
  // A list of strings; empty where the field is missing.
  std::vector<std::string> strings(std::string_view key) const;
  // The fields of an object in the order of the file: strings as they are, other values as JSON. Empty where
  // the field is missing.
  std::vector<std::pair<std::string, std::string>> entries(std::string_view key) const;
  ConfigReader object(std::string_view key) const;
  bool is_object(std::string_view key) const;
  // The value itself, for what the functions above do not read; nothing where it is missing.
  std::optional<JsonValue> find(std::string_view key) const;

  // A field that is missing or has this value.
  void require_boolean(std::string_view key, bool value) const;
  void require_integer(std::string_view key, int64_t value) const;
  void require_string(std::string_view key, const std::string& value) const;
  // The class of transformers that "architectures" names has to be one of these, where it names one.
  void require_class(std::initializer_list<std::string_view> known) const;

  // Throws DataError "<file>: <field>: expected <expected>, found <its value>".
  [[noreturn]] void reject(std::string_view key, const std::string& expected) const;
  // Rejects the first field that was not read and is not in the list.
  void reject_unknown_fields(std::span<const std::string_view> irrelevant) const;
  // The same for a model's config.json: fields of every model that never say what it computes
  // ("transformers_version") are allowed besides.
  void reject_unknown_model_fields(std::span<const std::string_view> irrelevant) const;

 private:
  struct Object;
  explicit ConfigReader(const JsonValue& object);

  std::shared_ptr<Object> object_;
};

// The activation that transformers calls by this name, one of several; nothing for another word.
std::optional<kernels::Activation> activation_of(std::string_view name);
// The name to write for an activation.
const char* activation_name(kernels::Activation activation);
// The double with the shortest decimal digits that still mean this float: 0.2, not 0.20000000298023224.
double decimal(float value);

}  // namespace qkv::models
