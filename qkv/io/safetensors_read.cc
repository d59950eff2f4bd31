#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/io/safetensors.h"
#include "qkv/tensor/block_dtypes.h"
#include "qkv/tensor/half.h"

namespace qkv::io {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are mapped as they are");

constexpr const char* kMetadataKey = "__metadata__";
constexpr const char* kReadable = "F32, F16, BF16, I64, I32, I8, U8 or BOOL";

// Bytes per element; 0 for an unknown dtype.
size_t bytes_per_element(const std::string& dtype) {
  static const std::map<std::string, size_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

template <class Half>
Tensor widened(const Tensor& narrow) {
  Tensor result = Tensor::empty(narrow.shape());
  std::ranges::transform(narrow.values<Half>(), result.data(), [](Half half) { return qkv::widened(half); });
  return result;
}

// Text from the file, shortened for a message: a corrupt file's "name" may be megabytes long.
std::string excerpt(const std::string& text) { return text.size() <= 80 ? text : text.substr(0, 80) + "..."; }

// The header as JSON.
JsonValue parse_header(std::string_view text, const std::string& file) {
  try {
    JsonValue header = parse_json(text, file, {.unique_keys = true});
    if (!header.is_object()) header.fail("a JSON object");
    return header;
  } catch (const DataError& error) {
    throw DataError(concat(error.what(), "; the file is damaged or has another format"));
  }
}

// A list of non-negative integers.
std::vector<uint64_t> numbers_of(const JsonValue& list) {
  std::vector<uint64_t> numbers;
  for (const JsonValue& number : list.items()) {
    numbers.push_back(static_cast<uint64_t>(number.integer(0, std::numeric_limits<int64_t>::max())));
  }
  return numbers;
}

// The shape, and its size in bytes for the given element size.
Shape checked_shape(const JsonValue& value, uint64_t element_bytes, uint64_t& bytes) {
  const std::vector<uint64_t> numbers = numbers_of(value);
  if (numbers.size() > Shape::kMaxRank)
    value.fail(concat("a shape of at most ", Shape::kMaxRank, " extents"));
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> extents;
  bytes = element_bytes;
  for (const uint64_t number : numbers) {
    if (__builtin_mul_overflow(bytes, number, &bytes) || bytes > kMost)
      value.fail("a shape of less than 2^63 bytes");
    extents.push_back(static_cast<int64_t>(number));
  }
  return Shape(extents);
}

std::string dtype_of_entry(const JsonValue& value) {
  std::string dtype = value.string();
  if (bytes_per_element(dtype) == 0) value.fail("a safetensors dtype such as F32");
  return dtype;
}

Metadata metadata_of(const JsonValue& value) {
  Metadata metadata;
  value.members([&](std::string_view key, const JsonValue& text) { metadata.emplace(key, text.string()); });
  return metadata;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, MapFor use)
    : path_(path), use_(use), file_(std::make_shared<MappedFile>(path, use)) {
  read_header();
  read_encodings();
  check_layout();
}

void SafetensorsFile::read_header() {
  const std::string file = path_.string();
  if (file_->size() < kLengthBytes) {
    throw DataError(concat(file, ": expected a safetensors file, which has at least ", kLengthBytes,
                           " bytes, found ", file_->size()));
  }
  constexpr std::string_view kPointer = "version https://git-lfs";
  if (std::string_view(reinterpret_cast<const char*>(file_->data()), file_->size()).starts_with(kPointer)) {
    throw DataError(concat(file, ": expected a safetensors file, found Git LFS's pointer to one; ",
                           "'git lfs pull' in its folder fetches it"));
  }
  uint64_t length;
  std::memcpy(&length, file_->data(), kLengthBytes);
  if (length > file_->size() - kLengthBytes) {
    throw DataError(concat(file, ": expected a safetensors header of ", length, " bytes, as the first ",
                           kLengthBytes, " bytes say, found a file of ", file_->size(),
                           " bytes; it is truncated or of another format"));
  }
  data_begin_ = kLengthBytes + length;
  const char* text = reinterpret_cast<const char*>(file_->data()) + kLengthBytes;
  const JsonValue header = parse_header({text, length}, file);
  header.members([&](std::string_view name, const JsonValue& value) {
    if (name == kMetadataKey) {
      metadata_ = metadata_of(value);
      return;
    }
    Entry entry;
    entry.dtype = dtype_of_entry(value["dtype"]);
    uint64_t needed = 0;
    entry.shape = checked_shape(value["shape"], bytes_per_element(entry.dtype), needed);
    const JsonValue offsets = value["data_offsets"];
    const std::vector<uint64_t> interval = numbers_of(offsets);
    if (interval.size() != 2 || interval[0] > interval[1]) offsets.fail("[begin, end]");
    if (interval[1] - interval[0] != needed) {
      offsets.fail(concat("an interval of ", needed, " bytes, for ", entry.dtype, " of shape ", entry.shape));
    }
    entry.begin = interval[0];
    entry.end = interval[1];
    entries_.emplace(name, std::move(entry));
  });
}

void SafetensorsFile::read_encodings() {
  for (const auto& item : metadata_) {
    const std::string &key = item.first, &value = item.second;
    if (!key.starts_with(kEncodingKey)) continue;
    const std::string name = key.substr(kEncodingKey.size());
    const auto reject = [&](const std::string& expected, const std::string& found) {
      throw DataError(
          concat(path_.string(), ": ", excerpt(key), ": expected ", expected, ", found ", excerpt(found)));
    };
    const auto encoding =
        std::ranges::find(kBlockDTypes, value, [](DType dtype) { return std::string(name_of(dtype)); });
    if (encoding == kBlockDTypes.end()) reject("the name of an encoding, such as q8_0", value);
    const auto found = entries_.find(name);
    if (found == entries_.end()) reject("a tensor of this name", "none");
    Entry& entry = found->second;
    const auto [spelling, block, bytes] = layout_of(*encoding);
    const int64_t rank = entry.shape.rank();
    const int64_t row = rank > 0 ? entry.shape.extents().back() : 0;
    if (entry.dtype != "U8" || rank == 0 || row % static_cast<int64_t>(bytes) != 0)
      reject(concat("rows of U8 in blocks of ", bytes, " bytes"), concat(entry.dtype, " ", entry.shape));
    std::vector<int64_t> extents(entry.shape.extents().begin(), entry.shape.extents().end());
    extents.back() = row / static_cast<int64_t>(bytes) * block;
    entry.shape = Shape(extents);
    entry.blocks = *encoding;
    entry.dtype = spelling;
    std::ranges::transform(entry.dtype, entry.dtype.begin(), [](char c) {
      return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
  }
}

// The byte ranges must cover the data without overlap or gap.
void SafetensorsFile::check_layout() const {
  std::vector<const std::pair<const std::string, Entry>*> order;
  for (const auto& item : entries_) order.push_back(&item);
  std::ranges::sort(order, {},
                    [](const auto* item) { return std::pair(item->second.begin, item->second.end); });
  size_t expected = 0;
  for (const auto* item : order) {
    if (item->second.begin != expected) {
      throw DataError(concat(path_.string(), ": ", excerpt(item->first), ": expected its numbers at byte ",
                             expected, ", where those before it end, found byte ", item->second.begin));
    }
    expected = item->second.end;
  }
  const size_t found = file_->size() - data_begin_;
  if (found != expected) {
    throw DataError(concat(path_.string(), ": expected ", expected, " bytes after the header, found ", found,
                           found < expected ? "; the file is truncated" : "; the file has trailing data"));
  }
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const SafetensorsFile::Entry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw_no_tensor(*this, name);
  return found->second;
}

const Shape& SafetensorsFile::shape(const std::string& name) const { return entry(name).shape; }

const std::string& SafetensorsFile::dtype(const std::string& name) const { return entry(name).dtype; }

std::span<const std::byte> SafetensorsFile::bytes(const std::string& name) const {
  const Entry& found = entry(name);
  return {file_->data() + data_begin_ + found.begin, found.end - found.begin};
}

std::string_view SafetensorsFile::header() const {
  return {reinterpret_cast<const char*>(file_->data()) + kLengthBytes, data_begin_ - kLengthBytes};
}

Tensor SafetensorsFile::view(const std::string& name, DType dtype) const {
  const Entry& found = entry(name);
  return mapped_tensor(file_, file_->data() + data_begin_ + found.begin, found.shape, dtype, use_,
                       concat(name, " of ", path_.string()));
}

Tensor SafetensorsFile::tensor(const std::string& name) const {
  const Entry& found = entry(name);
  if (found.blocks) {
    const Tensor blocks = view(name, *found.blocks);
    Tensor wide = Tensor::empty(found.shape);
    widen_blocks(*found.blocks, blocks.as_bytes().data(), wide.numel(), wide.data());
    return wide;
  }
  if (found.dtype == "F16") return widened<Float16>(view(name, DType::f16));
  if (found.dtype == "BF16") return widened<BFloat16>(view(name, DType::bf16));
  if (const auto dtype = element_type(found.dtype)) return view(name, *dtype);
  throw DataError(
      concat(path_.string(), ": ", name, ": expected dtype ", kReadable, ", found ", found.dtype));
}

void SafetensorsFile::require_shape(const std::string& name, const Shape& expected) const {
  const Shape& found = shape(name);
  if (found != expected) {
    throw DataError(concat(path_.string(), ": ", name, ": expected shape ", expected, ", found ", found));
  }
}

Tensor SafetensorsFile::tensor(const std::string& name, const Shape& expected) const {
  require_shape(name, expected);
  return tensor(name);
}

Tensor SafetensorsFile::as_stored(const std::string& name, const Shape& expected) const {
  require_shape(name, expected);
  const std::string& stored = dtype(name);
  if (const auto blocks = entry(name).blocks) return view(name, *blocks);
  if (stored == "F16") return view(name, DType::f16);
  return stored == "BF16" ? view(name, DType::bf16) : tensor(name);
}

}  // namespace qkv::io
