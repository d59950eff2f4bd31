#pragma once
// Reading of untrusted JSON: configurations, vocabularies, file headers. A value knows its path in the
// document, and every error names it: "tokenizer.json: model.vocab[3]: expected ..., found ...".

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv {

struct JsonOptions {
  int max_depth = 64;        // maximum nesting of arrays and objects
  bool unique_keys = false;  // reject an object with a repeated key; otherwise its last value counts
};

// A value in a document. Cheap to copy; keeps the document alive. All member functions except the predicates
// throw DataError, with the path, for a value of another type.
class JsonValue {
 public:
  bool is_null() const;
  bool is_boolean() const;
  bool is_integer() const;  // including integers beyond int64_t
  bool is_number() const;   // integers included
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;

  bool boolean() const;
  int64_t integer() const;
  // Throws DataError for an integer outside [least, most].
  int64_t integer(int64_t least, int64_t most) const;
  double number() const;
  std::string string() const;

  // Items of an array.
  std::vector<JsonValue> items() const;
  // Members of an object in document order; for a repeated key, the last value.
  void members(const std::function<void(std::string_view key, const JsonValue& value)>& each) const;
  size_t size() const;  // of an array or object; repeated keys count each time

  // A member of an object. operator[] throws DataError if it is missing; find() returns nothing if it is
  // missing or null.
  JsonValue operator[](std::string_view key) const;
  std::optional<JsonValue> find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key).has_value(); }

  // A member, or `otherwise` if it is missing.
  std::string string_or(std::string_view key, const std::string& otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  int64_t integer_or(std::string_view key, int64_t otherwise, int64_t least, int64_t most) const;

  // Its number within the document.
  uint32_t number_in_document() const { return node_; }
  // "tokenizer.json: pre_tokenizer.pretokenizers[1]"
  std::string path() const;
  // The path of this object's member `key`, whether it exists or not.
  std::string path_of(std::string_view key) const;
  // The value as JSON on one line, without spaces.
  std::string text() const;
  // Likewise, truncated to about 80 bytes.
  std::string excerpt() const;
  // Throws DataError "<path>: expected <expected>, found <excerpt>".
  [[noreturn]] void fail(const std::string& expected) const;

 private:
  friend JsonValue parse_json(std::string_view, const std::string&, const JsonOptions&);
  struct Document;
  struct Node;
  class Builder;
  JsonValue(std::shared_ptr<const Document> document, uint32_t node)
      : document_(std::move(document)), node_(node) {}

  const Node& node() const;
  JsonValue at(uint32_t node) const { return {document_, node}; }

  std::shared_ptr<const Document> document_;
  uint32_t node_;
};

// Parses a document. `name` (a file) begins all messages. Throws DataError: with line and column for invalid
// JSON and for a number too large for a double; for excessive nesting; for a text of 4 GiB or more.
JsonValue parse_json(std::string_view text, const std::string& name, const JsonOptions& options = {});

// A quoted JSON string. Valid UTF-8 is not escaped.
std::string quoted_json(std::string_view text);

// The double with the same shortest decimal digits as a float, for JSON writers, which write doubles: 1.2
// becomes
// "1.2", not "1.2000000476837158". The text reads back as the same float.
double decimal(float value);

}  // namespace qkv
