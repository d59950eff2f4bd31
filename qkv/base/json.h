#pragma once
// Reading JSON that somebody else wrote: configurations, vocabularies, headers of files. A value knows its
// place in the document, so that every error names it: "tokenizer.json: model.vocab[3]: expected ..., found
// ...".

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
  int max_depth = 64;        // of arrays and objects within each other
  bool unique_keys = false;  // refuse an object with a repeated key; otherwise its last value counts
};

// A value of a document. Cheap to copy, and keeps the document alive. All member functions but the predicates
// throw DataError, with the path, for a value of another type.
class JsonValue {
 public:
  bool is_null() const;
  bool is_boolean() const;
  bool is_integer() const;  // also one beyond int64_t
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

  // Of an array.
  std::vector<JsonValue> items() const;
  // Of an object, in the order of the text; of a repeated key the last.
  void members(const std::function<void(std::string_view key, const JsonValue& value)>& each) const;
  size_t size() const;  // of an array or an object; a repeated key counts each time

  // A member of an object. operator[] throws DataError where it is missing; find() gives nothing where it is
  // missing or null.
  JsonValue operator[](std::string_view key) const;
  std::optional<JsonValue> find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key).has_value(); }

  // A member that may be missing.
  std::string string_or(std::string_view key, const std::string& otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  int64_t integer_or(std::string_view key, int64_t otherwise, int64_t least, int64_t most) const;

  // "tokenizer.json: pre_tokenizer.pretokenizers[1]"
  std::string path() const;
  // The path that a member of this name has or would have.
  std::string path_of(std::string_view key) const;
  // The value as JSON, cut after some 80 bytes.
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

// The value that a text is. `name` (a file) begins all messages. Throws DataError, with line and column, for
// what is not JSON or a number too large for a double; for values nested too deep; and for a text of 4 GiB or
// more.
JsonValue parse_json(std::string_view text, const std::string& name, const JsonOptions& options = {});

// A string as JSON, in quotes. Valid UTF-8 stays as it is.
std::string quoted_json(std::string_view text);

}  // namespace qkv
