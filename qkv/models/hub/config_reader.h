#pragma once
// Strict reading of config.json: unknown fields are errors.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/base/json.h"

namespace qkv::models {

// The fields of one JSON object; records which were read. A null field counts as missing. All functions throw
// DataError naming the file, the field, what was expected and what was found.
class ConfigReader {
 public:
  // `path` is for messages.
  ConfigReader(std::string_view text, const std::string& path);

  // Reads a file that is a list of objects.
  static std::vector<ConfigReader> list(std::string_view text, const std::string& path);

  bool has(std::string_view key) const;
  // Whether the field is present and null, which some families distinguish from a missing one.
  bool is_null(std::string_view key) const;
  // Field values; without `otherwise` the field is required. Integers are 32-bit sizes and ids, so that their
  // products fit into 64 bits.
  int64_t integer(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t otherwise) const;
  double number(std::string_view key, double otherwise) const;
  bool boolean(std::string_view key, bool otherwise) const;
  std::string string(std::string_view key) const;
  std::string string(std::string_view key, const std::string& otherwise) const;
  // A token id or a list of ids; empty if missing.
  std::vector<int32_t> ids(std::string_view key) const;
  // A number or a list of numbers; empty if missing.
  std::vector<double> numbers(std::string_view key) const;
  // A list of strings; empty if missing.
  std::vector<std::string> strings(std::string_view key) const;
  // The fields of an object in file order: strings unquoted, other values as JSON. Empty if missing.
  std::vector<std::pair<std::string, std::string>> entries(std::string_view key) const;
  ConfigReader object(std::string_view key) const;
  bool is_object(std::string_view key) const;
  // The value itself, for types not covered above; nothing if missing.
  std::optional<JsonValue> find(std::string_view key) const;

  // Throws DataError unless the field is missing or has this value.
  void require_boolean(std::string_view key, bool value) const;
  void require_integer(std::string_view key, int64_t value) const;
  void require_string(std::string_view key, const std::string& value) const;

  // Throws DataError "<file>: <field>: expected <expected>, found <its value>".
  [[noreturn]] void reject(std::string_view key, const std::string& expected) const;
  // Marks fields, separated by spaces, as read.
  void ignore(std::string_view keys) const;
  // The same fields, none of them read.
  ConfigReader afresh() const;
  // The fields that were not read, null ones aside.
  std::vector<std::string> unread() const;
  // Rejects the first field that was not read.
  void reject_unknown_fields() const;
  // Likewise for a model's config.json; also allows fields common to all models that do not affect results
  // ("transformers_version"), which ignore_common() marks as read.
  void reject_unknown_model_fields() const;
  void ignore_common() const;

 private:
  struct Object;
  explicit ConfigReader(const JsonValue& object);

  std::shared_ptr<Object> object_;
};

// The words of a list that is separated by spaces.
std::vector<std::string> words_of(std::string_view list);

}  // namespace qkv::models
