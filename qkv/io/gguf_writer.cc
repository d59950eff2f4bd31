#include "qkv/io/gguf_writer.h"

#include <limits>

#include "qkv/base/error.h"
#include "qkv/io/gguf.h"

namespace qkv::io {
namespace {

constexpr uint32_t kU32 = 4, kI32 = 5, kF32 = 6, kBoolean = 7, kText = 8, kList = 9;  // kinds of values
constexpr uint32_t kVersion = 3;
constexpr size_t kDataAlignment = 32;

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& to, std::string_view text) {
  append(to, uint64_t{text.size()});
  to += text;
}

template <class T>
std::string value_of(uint32_t kind, const T& value) {
  std::string bytes;
  append(bytes, kind);
  append(bytes, value);
  return bytes;
}

std::string list_of(uint32_t kind, size_t count) {
  std::string bytes = value_of(kList, kind);
  append(bytes, uint64_t{count});
  return bytes;
}

template <class T>
std::string list_of(uint32_t kind, std::span<const T> values) {
  std::string bytes = list_of(kind, values.size());
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return bytes;
}

size_t bytes_of(const GgufWriter::Tensor& tensor) {
  return qkv::bytes_of(tensor.dtype, tensor.shape.numel());
}

}  // namespace

size_t gguf_padding(size_t bytes) { return (kDataAlignment - bytes % kDataAlignment) % kDataAlignment; }

void GgufMetadata::put(std::string_view key, std::string value) {
  const auto [place, is_new] = places_.emplace(key, values_.size());
  if (is_new) {
    values_.emplace_back(key, std::move(value));
  } else {
    values_[place->second].second = std::move(value);
  }
}

void GgufMetadata::integer(std::string_view key, int64_t value) {
  if (value < 0 || value > std::numeric_limits<uint32_t>::max())
    throw UsageError(concat(key, ": expected an integer from 0 to 4294967295, found ", value));
  put(key, value_of(kU32, static_cast<uint32_t>(value)));
}
void GgufMetadata::number(std::string_view key, double value) {
  put(key, value_of(kF32, static_cast<float>(value)));
}
void GgufMetadata::boolean(std::string_view key, bool value) {
  put(key, value_of(kBoolean, static_cast<uint8_t>(value)));
}
void GgufMetadata::text(std::string_view key, std::string_view value) {
  std::string bytes;
  append(bytes, kText);
  append_text(bytes, value);
  put(key, std::move(bytes));
}
void GgufMetadata::integers(std::string_view key, std::span<const int32_t> values) {
  put(key, list_of(kI32, values));
}
void GgufMetadata::numbers(std::string_view key, std::span<const float> values) {
  put(key, list_of(kF32, values));
}
void GgufMetadata::texts(std::string_view key, std::span<const std::string> values) {
  std::string bytes = list_of(kText, values.size());
  for (const std::string& value : values) append_text(bytes, value);
  put(key, std::move(bytes));
}
void GgufMetadata::stored(std::string_view key, std::span<const std::byte> value) {
  put(key, std::string(reinterpret_cast<const char*>(value.data()), value.size()));
}

std::string GgufMetadata::bytes() const {
  std::string all;
  for (const auto& [key, value] : values_) {
    append_text(all, key);
    all += value;
  }
  return all;
}

std::string gguf_header(const std::filesystem::path& path, const GgufMetadata& metadata,
                        std::span<const GgufWriter::Tensor> tensors) {
  std::string header = "GGUF";
  append(header, kVersion);
  append(header, uint64_t{tensors.size()});
  append(header, uint64_t{metadata.size()});
  header += metadata.bytes();
  std::map<std::string_view, size_t> numbers;
  size_t begin = 0;
  for (const GgufWriter::Tensor& tensor : tensors) {
    const auto refuse = [&](const std::string& message) {
      throw UsageError(concat(path.string(), ": ", tensor.name, ": ", message));
    };
    const auto type = gguf_type(tensor.dtype);
    const int64_t block = layout_of(tensor.dtype).block, rank = static_cast<int64_t>(tensor.shape.rank());
    if (tensor.name.empty()) refuse("expected a name, found none");
    if (!numbers.emplace(tensor.name, numbers.size()).second) refuse("expected one tensor, found several");
    if (!type) refuse(concat("expected a dtype of GGUF files, found ", name_of(tensor.dtype)));
    if (rank < 1 || rank > 4) refuse(concat("expected 1 to 4 extents, found ", tensor.shape));
    if (tensor.shape[-1] % block != 0) {
      refuse(concat("expected rows of a multiple of ", block, " numbers, as it is ", name_of(tensor.dtype),
                    ", found ", tensor.shape));
    }
    append_text(header, tensor.name);
    append(header, static_cast<uint32_t>(rank));
    for (int64_t axis = rank - 1; axis >= 0; --axis)
      append(header, static_cast<uint64_t>(tensor.shape[static_cast<int>(axis)]));
    append(header, *type);
    append(header, uint64_t{begin});
    begin += bytes_of(tensor) + gguf_padding(bytes_of(tensor));
  }
  header.append(gguf_padding(header.size()), '\0');
  return header;
}

GgufWriter::GgufWriter(const std::filesystem::path& path, const GgufMetadata& metadata,
                       std::vector<Tensor> tensors)
    : file_(path), tensors_(std::move(tensors)) {
  file_.write(gguf_header(path, metadata, tensors_));
}

void GgufWriter::write(const void* data, size_t bytes) {
  if (bytes == 0) return;
  const size_t rest = current_ < tensors_.size() ? bytes_of(tensors_[current_]) - written_ : 0;
  if (bytes > rest) {
    throw UsageError(concat("GgufWriter: expected ", rest, " more bytes of ",
                            current_ < tensors_.size() ? tensors_[current_].name : "no tensor", ", found ",
                            bytes));
  }
  file_.write(data, bytes);
  written_ += bytes;
  if (bytes < rest) return;
  pad(gguf_padding(written_));
  ++current_;
  written_ = 0;
}

void GgufWriter::commit() {
  if (current_ < tensors_.size())
    throw UsageError(concat("GgufWriter: expected the data of ", tensors_[current_].name, ", found ",
                            written_, " bytes of them"));
  file_.commit();
}

void GgufWriter::pad(size_t bytes) { file_.write(std::string(bytes, '\0')); }

}  // namespace qkv::io
