#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "qkv/base/error.h"
#include "qkv/io/safetensors.h"

namespace qkv::io {
namespace {

using Json = nlohmann::ordered_json;

// Alignment of the data section: kernels prefer rows that begin at a cache line.
constexpr size_t kAlignment = 64;

const char* spelling(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::i32:
      return "I32";
    case DType::u8:
      return "U8";
    case DType::bf16:
      return "BF16";
    case DType::i8:
      return "I8";
    case DType::f16:
      return "F16";
    case DType::i64:
      return "I64";
    default:  // blocks, as bytes
      return "U8";
  }
}

std::vector<int64_t> stored_extents(const Tensor& tensor) {
  const auto extents = tensor.shape().extents();
  std::vector<int64_t> stored(extents.begin(), extents.end());
  if (in_blocks(tensor.dtype()))
    stored.back() = static_cast<int64_t>(bytes_of(tensor.dtype(), stored.back()));
  return stored;
}

size_t alignment_of(DType dtype) { return in_blocks(dtype) ? 1 : layout_of(dtype).bytes; }

// Larger element types first, so that all data are aligned without gaps, which the format forbids; then by
// name.
std::vector<const NamedTensor*> file_order(const std::vector<NamedTensor>& tensors, const std::string& file) {
  std::vector<const NamedTensor*> order;
  std::set<std::string> names;
  for (const NamedTensor& item : tensors) {
    if (item.name.empty() || item.name == "__metadata__") {
      throw UsageError(concat(file, ": expected a tensor's name, found \"", item.name, "\""));
    }
    if (!item.tensor.defined())
      throw UsageError(concat(file, ": ", item.name, ": expected a tensor, found none"));
    if (!names.insert(item.name).second) {
      throw UsageError(concat(file, ": expected each name once, found ", item.name, " twice"));
    }
    order.push_back(&item);
  }
  std::ranges::sort(order, [](const NamedTensor* a, const NamedTensor* b) {
    const size_t bytes_a = alignment_of(a->tensor.dtype()), bytes_b = alignment_of(b->tensor.dtype());
    return bytes_a != bytes_b ? bytes_a > bytes_b : a->name < b->name;
  });
  return order;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata) {
  const std::vector<const NamedTensor*> order = file_order(tensors, path.string());
  Json header = Json::object();
  Metadata all = metadata;
  for (const NamedTensor* item : order) {
    if (in_blocks(item->tensor.dtype()))
      all[concat(kEncodingKey, item->name)] = name_of(item->tensor.dtype());
  }
  if (!all.empty()) header["__metadata__"] = all;
  size_t end = 0;
  for (const NamedTensor* item : order) {
    const size_t begin = end;
    end += item->tensor.bytes();
    header[item->name] = {{"dtype", spelling(item->tensor.dtype())},
                          {"shape", stored_extents(item->tensor)},
                          {"data_offsets", {begin, end}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::type_error&) {
    throw UsageError(concat(path.string(), ": expected names and metadata in UTF-8, found other bytes"));
  }
  text.append((kAlignment - (kLengthBytes + text.size()) % kAlignment) % kAlignment, ' ');

  AtomicFile file(path);
  const uint64_t length = text.size();
  file.write(&length, sizeof length);
  file.write(text);
  for (const NamedTensor* item : order) {
    const Tensor host = to_host(item->tensor);
    const Tensor packed = host.contiguous() ? host : host.clone();
    file.write(packed.as_bytes().data(), packed.bytes());
  }
  file.commit();
}

}  // namespace qkv::io
