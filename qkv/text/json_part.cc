#include "qkv/text/json_part.h"

#include <nlohmann/json.hpp>
#include <span>

#include "qkv/base/error.h"
#include "qkv/text/string_index.h"

namespace qkv::text {
namespace {

// The members of an object in the order of the file. A vocabulary has so many that a tree of them takes
// longer to make and to free than to read. Of a name that comes twice the last one counts.
template <class Key, class Value, class Less, class Allocator>
struct Members : nlohmann::ordered_map<Key, Value, Less, Allocator> {
  using Base = nlohmann::ordered_map<Key, Value, Less, Allocator>;
  using Base::Base;

  Value& operator[](const Key& key) { return this->emplace_back(key, Value{}).second; }

  auto find(const Key& key) { return last_of(*this, key); }
  auto find(const Key& key) const { return last_of(*this, key); }

 private:
  template <class List>
  static auto last_of(List& list, const Key& key) {
    for (auto at = list.end(); at != list.begin();) {
      if ((--at)->first == key) return at;
    }
    return list.end();
  }
};

using json = nlohmann::basic_json<Members>;

// Vocabularies have many members: no stream for each.
std::string member_path(const std::string& path, bool root, std::string_view key) {
  std::string result;
  result.reserve(path.size() + key.size() + 2);
  return result.append(path).append(root ? ": " : ".").append(key);
}

const json& value_of(const void* value) { return *static_cast<const json*>(value); }

}  // namespace

struct JsonDocument::Content {
  json value;
  std::string name;
};

JsonDocument::JsonDocument(std::string_view text, const std::string& name) {
  auto content = std::make_unique<Content>();
  content->name = name;
  try {
    content->value = json::parse(text);
  } catch (const json::parse_error& error) {
    throw DataError(concat(name, ": expected JSON, found something else at byte ", error.byte));
  } catch (const json::exception& error) {  // a number that is too large for one
    throw DataError(concat(name, ": expected JSON, found what cannot be read (", error.what(), ')'));
  }
  content_ = std::move(content);
}

JsonDocument::~JsonDocument() = default;

JsonPart JsonDocument::root() const { return {&content_->value, content_->name, /*root=*/true}; }

void JsonPart::fail(const std::string& expected) const {
  constexpr size_t kLongest = 60;
  std::string found = value_of(value_).dump(-1, ' ', false, json::error_handler_t::replace);
  if (found.size() > kLongest)
    found = concat(value_of(value_).type_name(), " of ", found.size(), " characters");
  throw DataError(concat(path_, ": expected ", expected, ", found ", found));
}

std::string JsonPart::text() const {
  if (!is_text()) fail("a string");
  return value_of(value_).get<std::string>();
}

bool JsonPart::flag() const {
  if (!value_of(value_).is_boolean()) fail("true or false");
  return value_of(value_).get<bool>();
}

int64_t JsonPart::whole() const {
  const json& value = value_of(value_);
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() ||
                                                  value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  if (!fits) fail("a whole number");
  return value.get<int64_t>();
}

double JsonPart::number() const {
  if (!value_of(value_).is_number()) fail("a number");
  return value_of(value_).get<double>();
}

bool JsonPart::is_text() const { return value_of(value_).is_string(); }
bool JsonPart::is_array() const { return value_of(value_).is_array(); }
bool JsonPart::is_object() const { return value_of(value_).is_object(); }

std::vector<JsonPart> JsonPart::items() const {
  if (!is_array()) fail("a list");
  std::vector<JsonPart> parts;
  parts.reserve(value_of(value_).size());
  for (const json& item : value_of(value_)) {
    parts.push_back(JsonPart(&item, path_ + '[' + std::to_string(parts.size()) + ']'));
  }
  return parts;
}

void JsonPart::members(const std::function<void(const std::string&, const JsonPart&)>& each) const {
  if (!is_object()) fail("an object");
  const std::span list(value_of(value_).get_ref<const json::object_t&>());
  StringIndex last;
  last.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) last.set(list[i].first, static_cast<int32_t>(i));
  const bool twice = last.size() < list.size();
  for (size_t i = 0; i < list.size(); ++i) {
    const auto& [key, value] = list[i];
    if (twice && last.find(key) != static_cast<int32_t>(i)) continue;
    each(key, JsonPart(&value, member_path(path_, root_, key)));
  }
}

JsonPart JsonPart::operator[](const std::string& key) const {
  if (!is_object()) fail("an object");
  const auto found = value_of(value_).find(key);
  if (found == value_of(value_).end())
    throw DataError(concat(path_, ": expected a member '", key, "', found none"));
  return {&*found, member_path(path_, root_, key)};
}

std::optional<JsonPart> JsonPart::find(const std::string& key) const {
  if (!is_object()) fail("an object");
  const auto found = value_of(value_).find(key);
  if (found == value_of(value_).end() || found->is_null()) return std::nullopt;
  return (*this)[key];
}

std::string JsonPart::text_or(const std::string& key, const std::string& otherwise) const {
  const auto part = find(key);
  return part ? part->text() : otherwise;
}

bool JsonPart::flag_or(const std::string& key, bool otherwise) const {
  const auto part = find(key);
  return part ? part->flag() : otherwise;
}

}  // namespace qkv::text
