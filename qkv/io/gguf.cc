#include "qkv/io/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"

namespace qkv::io {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are mapped as they are");

// ggml.h, enum ggml_type.
struct Type {
  uint32_t id;
  std::string_view name;
  int64_t block;
  size_t bytes;  // of a block
  std::optional<DType> dtype = {};
};

constexpr Type readable(uint32_t id, std::string_view name, DType dtype) {
  return {id, name, layout_of(dtype).block, layout_of(dtype).bytes, dtype};
}

constexpr std::array kTypes{readable(0, "F32", DType::f32),
                            readable(1, "F16", DType::f16),
                            readable(2, "Q4_0", DType::q4_0),
                            readable(3, "Q4_1", DType::q4_1),
                            readable(6, "Q5_0", DType::q5_0),
                            readable(7, "Q5_1", DType::q5_1),
                            readable(8, "Q8_0", DType::q8_0),
                            readable(12, "Q4_K", DType::q4_k),
                            readable(13, "Q5_K", DType::q5_k),
                            readable(14, "Q6_K", DType::q6_k),
                            readable(20, "IQ4_NL", DType::iq4_nl),
                            readable(30, "BF16", DType::bf16),
                            Type{9, "Q8_1", 32, 36},
                            Type{10, "Q2_K", 256, 84},
                            Type{11, "Q3_K", 256, 110},
                            Type{15, "Q8_K", 256, 292},
                            Type{16, "IQ2_XXS", 256, 66},
                            Type{17, "IQ2_XS", 256, 74},
                            Type{18, "IQ3_XXS", 256, 98},
                            Type{19, "IQ1_S", 256, 50},
                            Type{21, "IQ3_S", 256, 110},
                            Type{22, "IQ2_S", 256, 82},
                            Type{23, "IQ4_XS", 256, 136},
                            Type{24, "I8", 1, 1},
                            Type{25, "I16", 1, 2},
                            Type{26, "I32", 1, 4},
                            Type{27, "I64", 1, 8},
                            Type{28, "F64", 1, 8},
                            Type{29, "IQ1_M", 256, 56},
                            Type{34, "TQ1_0", 256, 54},
                            Type{35, "TQ2_0", 256, 66},
                            Type{39, "MXFP4", 32, 17}};

// The kinds of metadata values, and the bytes of one; 0 for texts and lists.
enum Kind : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean_kind, text_kind, list_kind, u64, i64, f64 };
constexpr std::array<size_t, 13> kKindBytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr std::array<std::string_view, 13> kKindNames{
    "an integer", "an integer", "an integer", "an integer", "an integer", "an integer", "a number",
    "a boolean",  "a text",     "a list",     "an integer", "an integer", "a number"};

constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr size_t kMaxExtents = 4;
constexpr int64_t kUsualAlignment = 32;

}  // namespace

std::optional<uint32_t> gguf_type(DType dtype) {
  const auto found = std::ranges::find(kTypes, std::optional(dtype), &Type::dtype);
  if (found == kTypes.end()) return std::nullopt;
  return found->id;
}

// Reads the header from front to back; every read is checked against the end of the file.
class GgufFile::Reader {
 public:
  Reader(const std::filesystem::path& path, std::span<const std::byte> file, size_t at = 0)
      : path_(path), file_(file), at_(at) {}

  size_t at() const { return at_; }
  uint64_t rest() const { return file_.size() - at_; }

  [[noreturn]] void fail(const std::string& message) const {
    throw DataError(concat(path_.string(), ": ", message));
  }
  void require(uint64_t bytes, std::string_view what) const {
    if (bytes <= rest()) return;
    fail(concat("expected ", what, ", ", bytes, " bytes at byte ", at_, ", found the end of the file; ",
                "it is truncated or damaged"));
  }
  template <class T>
  T number(std::string_view what) {
    require(sizeof(T), what);
    T value;
    std::memcpy(&value, file_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string_view text(std::string_view what) {
    const auto length = number<uint64_t>(what);
    require(length, what);
    const std::string_view found(reinterpret_cast<const char*>(file_.data()) + at_, length);
    at_ += length;
    return found;
  }
  // A name, which messages show.
  std::string name(std::string_view what) {
    const size_t begin = at_;
    const std::string_view found = text(what);
    if (found.empty() || !valid_utf8(found))
      fail(concat("expected ", what, " at byte ", begin, ", found ",
                  found.empty() ? "none" : "invalid UTF-8"));
    return std::string(found);
  }
  void skip(uint64_t bytes, std::string_view what) {
    require(bytes, what);
    at_ += bytes;
  }

 private:
  const std::filesystem::path& path_;
  std::span<const std::byte> file_;
  size_t at_;
};

GgufFile::GgufFile(const std::filesystem::path& path)
    : path_(path),
      file_(std::make_shared<MappedFile>(path, MapFor::reading)),
      bytes_(file_->data(), file_->size()) {
  read();
}

GgufFile::GgufFile(const std::filesystem::path& path, std::string beginning)
    : path_(path),
      beginning_(std::make_shared<const std::string>(std::move(beginning))),
      bytes_(std::as_bytes(std::span(*beginning_))) {
  read();
}

void GgufFile::read() {
  Reader reader(path_, bytes_);
  constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
  if (reader.rest() < sizeof kMagic || reader.number<uint32_t>("GGUF") != kMagic)
    reader.fail("expected a GGUF file, which begins with \"GGUF\", found another format");
  const auto version = reader.number<uint32_t>("the version");
  if (version < 2 || version > 3) {
    const bool swapped = version >> 16 != 0;  // big-endian files have their own byte order throughout
    reader.fail(concat("expected version 2 or 3 of GGUF, little-endian, found ",
                       swapped ? "a big-endian file" : concat("version ", version)));
  }
  const auto tensors = reader.number<uint64_t>("the number of tensors");
  const auto values = reader.number<uint64_t>("the number of metadata values");
  read_metadata(reader, values);
  read_tensors(reader, tensors);
}

void GgufFile::read_metadata(Reader& reader, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const std::string key = reader.name("a metadata key");
    const size_t begin = reader.at();
    const auto kind = reader.number<uint32_t>(key);
    const auto known = [&](uint32_t of) {
      if (of < kKindBytes.size()) return;
      reader.fail(concat(key, ": expected a kind of value below ", kKindBytes.size(), ", found ", of));
    };
    known(kind);
    Value value;
    switch (static_cast<Kind>(kind)) {
      case u8:
        value = int64_t{reader.number<uint8_t>(key)};
        break;
      case i8:
        value = int64_t{reader.number<int8_t>(key)};
        break;
      case u16:
        value = int64_t{reader.number<uint16_t>(key)};
        break;
      case i16:
        value = int64_t{reader.number<int16_t>(key)};
        break;
      case u32:
        value = int64_t{reader.number<uint32_t>(key)};
        break;
      case i32:
        value = int64_t{reader.number<int32_t>(key)};
        break;
      case i64:
        value = reader.number<int64_t>(key);
        break;
      case u64: {
        const auto number = reader.number<uint64_t>(key);
        if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
          reader.fail(concat(key, ": expected an integer below 2^63, found ", number));
        value = static_cast<int64_t>(number);
        break;
      }
      case f32:
        value = double{reader.number<float>(key)};
        break;
      case f64:
        value = reader.number<double>(key);
        break;
      case boolean_kind:
        value = reader.number<uint8_t>(key) != 0;
        break;
      case text_kind:
        value = reader.text(key);
        break;
      case list_kind: {
        List list{.kind = reader.number<uint32_t>(key), .count = reader.number<uint64_t>(key)};
        known(list.kind);
        if (list.kind == list_kind)
          reader.fail(concat(key, ": expected a list of values, found one of lists"));
        list.begin = reader.at();
        if (list.kind == text_kind) {
          for (uint64_t element = 0; element < list.count; ++element) reader.text(key);
        } else {
          if (list.count > reader.rest()) reader.require(list.count, key);  // a product would overflow
          reader.skip(list.count * kKindBytes[list.kind], key);
        }
        value = list;
        break;
      }
    }
    stored_[key] = bytes_.subspan(begin, reader.at() - begin);
    if (!values_.emplace(key, value).second) reader.fail(concat(key, ": expected one value, found several"));
    keys_.push_back(key);
  }
}

void GgufFile::read_tensors(Reader& reader, uint64_t count) {
  const int64_t alignment = integer(kAlignmentKey).value_or(kUsualAlignment);
  if (alignment < 1 || alignment > (1 << 20) || !std::has_single_bit(static_cast<uint64_t>(alignment)))
    reject(kAlignmentKey, "a power of two up to 2^20");
  struct Place {
    uint64_t begin, bytes;
    std::string name;
  };
  std::vector<Place> places;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string name = reader.name("a tensor's name");
    const auto rank = reader.number<uint32_t>(name);
    if (rank < 1 || rank > kMaxExtents)
      reader.fail(concat(name, ": expected 1 to ", kMaxExtents, " extents, found ", rank));
    std::vector<int64_t> extents;
    uint64_t numbers = 1;
    for (uint32_t axis = 0; axis < rank; ++axis) {
      const auto extent = reader.number<uint64_t>(name);
      if (extent == 0 || __builtin_mul_overflow(numbers, extent, &numbers) || numbers > (uint64_t{1} << 60))
        reader.fail(concat(name, ": expected extents from 1 to 2^60 in all, found ", extent));
      extents.push_back(static_cast<int64_t>(extent));
    }
    const auto id = reader.number<uint32_t>(name);
    const auto type = std::ranges::find(kTypes, id, &Type::id);
    if (type == kTypes.end())
      reader.fail(concat(name, ": expected a known type of tensor, found number ", id));
    if (extents.front() % type->block != 0) {
      reader.fail(concat(name, ": expected rows of a multiple of ", type->block, " numbers, as it is ",
                         type->name, ", found ", extents.front()));
    }
    std::ranges::reverse(extents);
    const Entry entry{.type = type->name, .dtype = type->dtype, .shape = Shape(extents)};
    const auto begin = reader.number<uint64_t>(name);
    if (begin % static_cast<uint64_t>(alignment) != 0)
      reader.fail(concat(name, ": expected data at a multiple of ", alignment, " bytes, found byte ", begin));
    places.push_back({begin, numbers / static_cast<uint64_t>(type->block) * type->bytes, name});
    if (!entries_.emplace(name, entry).second)
      reader.fail(concat(name, ": expected one tensor, found several"));
  }
  const uint64_t padding =
      (static_cast<uint64_t>(alignment) - reader.at() % static_cast<uint64_t>(alignment)) %
      static_cast<uint64_t>(alignment);
  if (places.empty()) return;
  reader.skip(padding, "the tensors' data");
  std::ranges::sort(places, {}, [](const Place& place) { return std::pair(place.begin, place.bytes); });
  uint64_t end = 0;
  for (const Place& place : places) {
    if (place.begin < end)
      reader.fail(concat(place.name, ": expected data from byte ", end, " on, found byte ", place.begin));
    const bool ends = place.begin > reader.rest() || place.bytes > reader.rest() - place.begin;
    if (ends && beginning_) return;
    if (ends) {
      reader.fail(concat(place.name, ": expected ", place.bytes, " bytes of data at byte ", place.begin,
                         ", found ", reader.rest(), " bytes in all; the file is truncated"));
    }
    end = place.begin + place.bytes;
    entries_.at(place.name).bytes = bytes_.subspan(reader.at() + place.begin, place.bytes);
  }
}

const GgufFile::Value* GgufFile::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::string GgufFile::shown(std::string_view key) const {
  const Value* const value = find(key);
  if (value == nullptr) return "none";
  const auto show = [](const auto& one) {
    using T = std::decay_t<decltype(one)>;
    if constexpr (std::is_same_v<T, List>) {
      return concat("a list of ", one.count, " values, each ", kKindNames[one.kind]);
    } else if constexpr (std::is_same_v<T, bool>) {
      return std::string(one ? "true" : "false");
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      return one.size() <= 80 && valid_utf8(one) ? concat('"', one, '"')
                                                 : concat("a text of ", one.size(), " bytes");
    } else {
      return concat(one);
    }
  };
  return std::visit(show, *value);
}

std::string GgufFile::json(std::string_view key) const {
  const Value* const value = find(key);
  if (value == nullptr) return "null";
  const auto json = [&](const auto& one) {
    using T = std::decay_t<decltype(one)>;
    if constexpr (std::is_same_v<T, List>) {
      return nlohmann::json(shown(key));
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      return nlohmann::json(valid_utf8(one) ? std::string(one) : shown(key));
    } else {
      return nlohmann::json(one);  // a number that is not finite becomes null
    }
  };
  return std::visit(json, *value).dump();
}

void GgufFile::reject(std::string_view key, const std::string& expected) const {
  throw DataError(concat(path_.string(), ": ", key, ": expected ", expected, ", found ", shown(key)));
}

template <class T>
std::optional<T> GgufFile::scalar(std::string_view key, const std::string& expected) const {
  const Value* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const T* const found = std::get_if<T>(value)) return *found;
  reject(key, expected);
}

std::optional<int64_t> GgufFile::integer(std::string_view key) const {
  return scalar<int64_t>(key, "an integer");
}
std::optional<double> GgufFile::number(std::string_view key) const {
  const Value* const value = find(key);
  if (value != nullptr && std::holds_alternative<int64_t>(*value))
    return static_cast<double>(std::get<int64_t>(*value));
  return scalar<double>(key, "a number");
}
std::optional<bool> GgufFile::boolean(std::string_view key) const { return scalar<bool>(key, "a boolean"); }
std::optional<std::string_view> GgufFile::text(std::string_view key) const {
  return scalar<std::string_view>(key, "a text");
}

const GgufFile::List* GgufFile::list(std::string_view key, const std::string& expected) const {
  const Value* const value = find(key);
  if (value == nullptr) return nullptr;
  if (const List* const found = std::get_if<List>(value)) return found;
  reject(key, expected);
}

namespace {

// Calls keep(number) for each element of a list of numbers of this kind.
template <class Keep>
void each_number(uint32_t kind, uint64_t count, const std::byte* at, const Keep& keep) {
  const auto run = [&]<class T>(T value) {
    for (uint64_t i = 0; i < count; ++i) {
      std::memcpy(&value, at + i * sizeof value, sizeof value);
      keep(value);
    }
  };
  switch (static_cast<Kind>(kind)) {
    case u8:
      return run(uint8_t{});
    case i8:
      return run(int8_t{});
    case u16:
      return run(uint16_t{});
    case i16:
      return run(int16_t{});
    case u32:
      return run(uint32_t{});
    case i32:
      return run(int32_t{});
    case u64:
      return run(uint64_t{});
    case i64:
      return run(int64_t{});
    case f32:
      return run(float{});
    case f64:
      return run(double{});
    default:
      return;
  }
}

bool is_integer(uint32_t kind) { return kind <= i32 || kind == u64 || kind == i64; }

}  // namespace

std::vector<int64_t> GgufFile::integers(std::string_view key) const {
  const std::string expected = "a list of integers";
  const List* const found = list(key, expected);
  if (found == nullptr) return {};
  if (!is_integer(found->kind)) reject(key, expected);
  std::vector<int64_t> all;
  all.reserve(found->count);
  each_number(found->kind, found->count, bytes_.data() + found->begin,
              [&](auto number) { all.push_back(static_cast<int64_t>(number)); });
  return all;
}

std::vector<double> GgufFile::numbers(std::string_view key) const {
  const std::string expected = "a list of numbers";
  const List* const found = list(key, expected);
  if (found == nullptr) return {};
  if (!is_integer(found->kind) && found->kind != f32 && found->kind != f64) reject(key, expected);
  std::vector<double> all;
  all.reserve(found->count);
  each_number(found->kind, found->count, bytes_.data() + found->begin,
              [&](auto number) { all.push_back(static_cast<double>(number)); });
  return all;
}

std::vector<std::string_view> GgufFile::texts(std::string_view key) const {
  const std::string expected = "a list of texts";
  const List* const found = list(key, expected);
  if (found == nullptr) return {};
  if (found->kind != text_kind) reject(key, expected);
  Reader reader(path_, bytes_, found->begin);
  std::vector<std::string_view> all;
  all.reserve(found->count);
  for (uint64_t i = 0; i < found->count; ++i) all.push_back(reader.text(key));
  return all;
}

std::vector<std::string> GgufFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const GgufFile::Entry& GgufFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second;
  throw DataError(concat(path_.string(), ": expected a tensor ", name, ", found ", entries_.size(),
                         " tensors of other names"));
}

}  // namespace qkv::io
