#pragma once
// Reading JSON whose parts are known: whatever is not as expected is named by its place.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

// A value within a document, which must live as long.
class JsonPart {
 public:
  // "tokenizer.json: pre_tokenizer.pretokenizers[1]"
  const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& expected) const;  // throws DataError; says what was found

  // The value as what it has to be; each throws DataError if it is something else.
  std::string text() const;
  bool flag() const;
  int64_t whole() const;
  double number() const;
  std::vector<JsonPart> items() const;                                                       // of an array
  void members(const std::function<void(const std::string&, const JsonPart&)>& each) const;  // of an object
  bool is_text() const;
  bool is_array() const;
  bool is_object() const;

  // A member of an object: operator[] throws DataError where it is missing; find() gives nothing for that and
  // for null.
  JsonPart operator[](const std::string& key) const;
  std::optional<JsonPart> find(const std::string& key) const;
  bool has(const std::string& key) const { return find(key).has_value(); }

  // A member that need not be there.
  std::string text_or(const std::string& key, const std::string& otherwise) const;
  bool flag_or(const std::string& key, bool otherwise) const;

 private:
  friend class JsonDocument;
  JsonPart(const void* value, std::string path, bool root = false)
      : value_(value), path_(std::move(path)), root_(root) {}

  const void* value_;  // of the library that parsed it, which no header shows
  std::string path_;
  bool root_;
};

class JsonDocument {
 public:
  // `name` (a file) is named in errors. Throws DataError where the text is not JSON.
  JsonDocument(std::string_view json, const std::string& name);
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonPart root() const;

 private:
  struct Content;
  std::unique_ptr<const Content> content_;
};

}  // namespace qkv::text
