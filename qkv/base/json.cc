#include "qkv/base/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/string_index.h"
#include "qkv/base/utf8.h"

namespace qkv {
namespace {

enum class Kind : uint8_t { null, boolean, integer, large_integer, number, string, array, object };

constexpr size_t kExcerptBytes = 80;

struct Piece {
  uint32_t begin, size;  // in Document::text
};

// An excerpt for a message, cut between characters.
std::string shortened(std::string_view text) {
  if (text.size() <= kExcerptBytes) return std::string(text);
  size_t end = kExcerptBytes;
  while (end > 0 && continues_character(text[end])) --end;
  return std::string(text.substr(0, end)) + "...";
}

// "line 3, column 7" of the given byte, counted from 1.
std::string position_of(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte > 0 ? byte - 1 : 0, text.size()));
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 = 0
  return concat("line ", std::ranges::count(before, '\n') + 1, ", column ", before.size() - line_begin + 1);
}

}  // namespace

// Nodes are in document order, each before its items or members.
struct JsonValue::Node {
  Kind kind = Kind::null;
  uint32_t parent = 0;
  uint32_t end = 0;  // one past the last node within this one
  Piece key{};       // of a member
  union {
    bool boolean;
    int64_t integer = 0;
    uint64_t large_integer;  // greater than INT64_MAX
    double number;
    Piece string;
  };
};

struct JsonValue::Document {
  std::string name;
  std::string text;  // all keys and strings
  std::vector<Node> nodes;

  std::string_view view(Piece piece) const { return std::string_view(text).substr(piece.begin, piece.size); }

  template <class Each>
  void for_each_child(uint32_t parent, Each each) const {
    for (uint32_t i = parent + 1; i < nodes[parent].end; i = nodes[i].end) each(i);
  }

  size_t children(uint32_t parent) const {
    size_t count = 0;
    for_each_child(parent, [&](uint32_t) { ++count; });
    return count;
  }

  // The last member with this name; 0 if there is none.
  uint32_t member(uint32_t object, std::string_view key) const {
    uint32_t found = 0;
    for_each_child(object, [&](uint32_t i) {
      if (view(nodes[i].key) == key) found = i;
    });
    return found;
  }

  // "model.vocab[3]"; empty for the root.
  std::string path(uint32_t node) const {
    if (node == 0) return "";
    const uint32_t parent = nodes[node].parent;
    std::string result = path(parent);
    if (nodes[parent].kind == Kind::object)
      return result.append(result.empty() ? "" : ".").append(shortened(view(nodes[node].key)));
    size_t place = 0;
    for (uint32_t i = parent + 1; i < node; i = nodes[i].end) ++place;
    return result + '[' + std::to_string(place) + ']';
  }

  // Appends a value as JSON until `out` has more than about `most` bytes.
  void write(uint32_t at, std::string& out, size_t most) const {
    const auto some = [&](Piece piece) { return quoted_json(view(piece).substr(0, most + 8)); };
    const Node& node = nodes[at];
    switch (node.kind) {
      case Kind::null:
        out += "null";
        return;
      case Kind::boolean:
        out += node.boolean ? "true" : "false";
        return;
      case Kind::integer:
        out += std::to_string(node.integer);
        return;
      case Kind::large_integer:
        out += std::to_string(node.large_integer);
        return;
      case Kind::number: {
        std::array<char, 32> digits{};
        const std::string_view written(digits.data(),
                                       std::to_chars(digits.begin(), digits.end(), node.number).ptr);
        out.append(written).append(written.find_first_of(".e") == written.npos ? ".0" : "");
        return;
      }
      case Kind::string:
        out += some(node.string);
        return;
      case Kind::array:
      case Kind::object:
        break;
    }
    const bool object = node.kind == Kind::object;
    out += object ? '{' : '[';
    for (uint32_t i = at + 1; i < node.end && out.size() <= most; i = nodes[i].end) {
      if (i > at + 1) out += ',';
      if (object) out.append(some(nodes[i].key)).append(":");
      write(i, out, most);
    }
    out += object ? '}' : ']';
  }
};

// Builds the document from the parser's events.
class JsonValue::Builder {
 public:
  using Json = nlohmann::json;

  Builder(Document& document, std::string_view text, const JsonOptions& options)
      : document_(document), text_(text), options_(options) {}

  bool null() { return add(Kind::null), true; }
  bool boolean(bool value) { return add(Kind::boolean).boolean = value, true; }
  bool number_integer(int64_t value) { return add(Kind::integer).integer = value, true; }
  bool number_float(double value, const std::string&) { return add(Kind::number).number = value, true; }
  bool number_unsigned(uint64_t value) {
    if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return number_integer(static_cast<int64_t>(value));
    return add(Kind::large_integer).large_integer = value, true;
  }
  bool string(const std::string& value) {
    const Piece piece = keep(value);
    return add(Kind::string).string = piece, true;
  }
  bool binary(Json::binary_t&) { return false; }  // JSON has no binary values

  bool key(const std::string& name) { return key_ = keep(name), true; }
  bool start_object(size_t) { return open(Kind::object); }
  bool start_array(size_t) { return open(Kind::array); }
  bool end_array() { return close(); }
  bool end_object() {
    if (options_.unique_keys) require_unique_keys(open_.back());
    return close();
  }

  bool parse_error(size_t byte, const std::string& token, const Json::exception& error) {
    constexpr int kOutOfRange = 406;
    const std::string where = concat(" at ", position_of(text_, byte));
    if (error.id == kOutOfRange)
      fail(concat("expected JSON, found a number beyond double precision", where, ": ", shortened(token)));
    if (byte > text_.size()) fail(concat("expected JSON, found the end of the text", where, " (truncated?)"));
    fail(concat("expected JSON, found a syntax error", where));
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw DataError(concat(document_.name, ": ", message));
  }

  Piece keep(const std::string& text) {
    const Piece piece{static_cast<uint32_t>(document_.text.size()), static_cast<uint32_t>(text.size())};
    document_.text += text;
    return piece;
  }

  Node& add(Kind kind) {
    Node& node = document_.nodes.emplace_back();
    node.kind = kind;
    node.parent = open_.empty() ? 0 : open_.back();
    node.end = static_cast<uint32_t>(document_.nodes.size());
    node.key = std::exchange(key_, {});
    return node;
  }

  bool open(Kind kind) {
    if (static_cast<int>(open_.size()) == options_.max_depth)
      fail(concat("expected JSON nested at most ", options_.max_depth, " deep, found more"));
    add(kind);
    open_.push_back(static_cast<uint32_t>(document_.nodes.size() - 1));
    return true;
  }

  bool close() {
    document_.nodes[open_.back()].end = static_cast<uint32_t>(document_.nodes.size());
    open_.pop_back();
    return true;
  }

  void require_unique_keys(uint32_t object) {
    document_.nodes[object].end = static_cast<uint32_t>(document_.nodes.size());
    StringIndex seen;
    document_.for_each_child(object, [&](uint32_t i) {
      const std::string_view name = document_.view(document_.nodes[i].key);
      if (seen.find(name) != StringIndex::kNone)
        fail(concat("expected each name once, found ", shortened(name), " twice"));
      seen.set(name, 0);
    });
  }

  Document& document_;
  std::string_view text_;
  const JsonOptions& options_;
  std::vector<uint32_t> open_;
  Piece key_{};
};

JsonValue parse_json(std::string_view text, const std::string& name, const JsonOptions& options) {
  if (text.size() > std::numeric_limits<uint32_t>::max())
    throw DataError(concat(name, ": expected JSON of less than 4 GiB, found ", text.size(), " bytes"));
  auto document = std::make_shared<JsonValue::Document>();
  document->name = name;
  JsonValue::Builder builder(*document, text, options);
  nlohmann::json::sax_parse(text, &builder);
  return {std::move(document), 0};
}

const JsonValue::Node& JsonValue::node() const { return document_->nodes[node_]; }

bool JsonValue::is_null() const { return node().kind == Kind::null; }
bool JsonValue::is_boolean() const { return node().kind == Kind::boolean; }
bool JsonValue::is_integer() const {
  return node().kind == Kind::integer || node().kind == Kind::large_integer;
}
bool JsonValue::is_number() const { return is_integer() || node().kind == Kind::number; }
bool JsonValue::is_string() const { return node().kind == Kind::string; }
bool JsonValue::is_array() const { return node().kind == Kind::array; }
bool JsonValue::is_object() const { return node().kind == Kind::object; }

bool JsonValue::boolean() const {
  if (!is_boolean()) fail("true or false");
  return node().boolean;
}

int64_t JsonValue::integer() const {
  if (node().kind != Kind::integer) fail("an integer");
  return node().integer;
}

int64_t JsonValue::integer(int64_t least, int64_t most) const {
  if (!is_integer()) fail("an integer");
  if (node().kind == Kind::large_integer || node().integer > most)
    fail(concat("an integer of at most ", most));
  if (node().integer < least) fail(concat("an integer of at least ", least));
  return node().integer;
}

double JsonValue::number() const {
  switch (node().kind) {
    case Kind::integer:
      return static_cast<double>(node().integer);
    case Kind::large_integer:
      return static_cast<double>(node().large_integer);
    case Kind::number:
      return node().number;
    default:
      fail("a number");
  }
}

std::string JsonValue::string() const {
  if (!is_string()) fail("a string");
  return std::string(document_->view(node().string));
}

std::vector<JsonValue> JsonValue::items() const {
  if (!is_array()) fail("a list");
  std::vector<JsonValue> items;
  document_->for_each_child(node_, [&](uint32_t i) { items.push_back(at(i)); });
  return items;
}

void JsonValue::members(const std::function<void(std::string_view, const JsonValue&)>& each) const {
  if (!is_object()) fail("an object");
  StringIndex last;  // index of each key's last value
  const size_t count = document_->children(node_);
  last.reserve(count);
  document_->for_each_child(node_, [&](uint32_t i) {
    last.set(document_->view(document_->nodes[i].key), static_cast<int32_t>(i));
  });
  const bool repeated = last.size() < count;
  document_->for_each_child(node_, [&](uint32_t i) {
    const std::string_view key = document_->view(document_->nodes[i].key);
    if (!repeated || last.find(key) == static_cast<int32_t>(i)) each(key, at(i));
  });
}

size_t JsonValue::size() const {
  if (!is_array() && !is_object()) fail("a list or an object");
  return document_->children(node_);
}

JsonValue JsonValue::operator[](std::string_view key) const {
  if (!is_object()) fail("an object");
  const uint32_t found = document_->member(node_, key);
  if (found == 0) throw DataError(concat(path(), ": expected a member '", key, "', found none"));
  return at(found);
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  if (!is_object()) fail("an object");
  const uint32_t found = document_->member(node_, key);
  if (found == 0 || document_->nodes[found].kind == Kind::null) return std::nullopt;
  return at(found);
}

std::string JsonValue::string_or(std::string_view key, const std::string& otherwise) const {
  const auto value = find(key);
  return value ? value->string() : otherwise;
}

bool JsonValue::boolean_or(std::string_view key, bool otherwise) const {
  const auto value = find(key);
  return value ? value->boolean() : otherwise;
}

int64_t JsonValue::integer_or(std::string_view key, int64_t otherwise, int64_t least, int64_t most) const {
  const auto value = find(key);
  return value ? value->integer(least, most) : otherwise;
}

std::string JsonValue::path() const {
  const std::string within = document_->path(node_);
  return within.empty() ? document_->name : document_->name + ": " + within;
}

std::string JsonValue::path_of(std::string_view key) const {
  return concat(path(), node_ == 0 ? ": " : ".", shortened(key));
}

std::string JsonValue::excerpt() const {
  std::string text;
  document_->write(node_, text, kExcerptBytes);
  return shortened(text);
}

std::string JsonValue::text() const {
  std::string text;
  document_->write(node_, text, text.max_size());
  return text;
}

void JsonValue::fail(const std::string& expected) const {
  throw DataError(concat(path(), ": expected ", expected, ", found ", excerpt()));
}

std::string quoted_json(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
    if (const size_t place = kEscaped.find(c); place != kEscaped.npos) {
      quoted.append(1, '\\').append(1, kLetters[place]);
    } else if (static_cast<uint8_t>(c) < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      quoted += code.data();
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

double decimal(float value) {
  std::array<char, 32> text{};
  const char* end = std::to_chars(text.begin(), text.end(), value).ptr;
  double result = 0;
  std::from_chars(text.begin(), end, result);
  return result;
}

}  // namespace qkv
