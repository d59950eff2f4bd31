#pragma once
// The fields of a request's JSON object. Every field must be read: others are refused by name.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/json.h"

namespace qkv::serve {

class Fields {
 public:
  // Throws HttpError (400) for text that is not a JSON object.
  explicit Fields(std::string_view body);

  // A field; nothing if it is missing or null. Counts as read. The values' member functions throw DataError
  // naming the field.
  std::optional<JsonValue> find(const std::string& name);

  std::string text(const std::string& name, const std::string& otherwise = {});
  std::string required_text(const std::string& name);
  bool boolean(const std::string& name, bool otherwise);
  std::optional<int64_t> integer(const std::string& name, int64_t least, int64_t most);
  std::optional<double> number(const std::string& name, double least, double most);
  // A text or a list of texts, at most kMaxTexts. `is_list`, if given: which of the two.
  std::vector<std::string> texts(const std::string& name, bool* is_list = nullptr);

  // The seed of random numbers; without the field, another one for each request, below 2^32.
  uint64_t seed();

  // Throws HttpError (400) for fields that have not been read, naming them.
  void done() const;

  static constexpr size_t kMaxTexts = 2048;

 private:
  JsonValue object_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace qkv::serve
