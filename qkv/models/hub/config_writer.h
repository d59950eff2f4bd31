#pragma once
// Writes config.json: the inverse of ConfigReader.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qkv::models {

// Fields are written in alphabetical order, as by transformers.
class ConfigWriter {
 public:
  // Begins a file with the fields common to all: "architectures", "model_type", "dtype".
  ConfigWriter(std::string_view model_type, std::string_view architecture);
  ConfigWriter();  // a nested object

  void integer(const std::string& key, int64_t value);
  void number(const std::string& key, double value);
  void number(const std::string& key, float value);  // with the shortest digits that identify it
  void boolean(const std::string& key, bool value);
  void string(const std::string& key, std::string_view value);
  void null(const std::string& key);
  void id(const std::string& key, std::span<const int32_t> ids);  // null, a number or a list
  void strings(const std::string& key, const std::vector<std::pair<std::string, std::string>>& fields);
  void integers(const std::string& key, const std::vector<std::pair<std::string, int64_t>>& fields);
  void list(const std::string& key, const std::vector<std::string>& values);
  void numbers(const std::string& key, std::span<const double> values);
  void numbers(const std::string& key, const std::vector<int64_t>& values);  // a list
  void flags(const std::string& key, const std::vector<bool>& flags);        // a list of 0 and 1
  void object(const std::string& key, const ConfigWriter& fields);

  // Removes fields, separated by spaces.
  void omit(std::string_view keys);
  // Adds the fields of another config.json that are not written yet, except those of the weights: label2id,
  // pad_token_id and the like, which only other programs read.
  void keep_others(std::string_view json);

  std::string json() const;

 private:
  struct Object;
  std::shared_ptr<Object> object_;
};

}  // namespace qkv::models
