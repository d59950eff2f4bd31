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
    default:
      throw UsageError(
          concat("safetensors: expected f32, bf16, f16, i64, i32, i8 or u8, found ", name_of(dtype)));
  }
}

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
    const size_t bytes_a = layout_of(a->tensor.dtype()).bytes, bytes_b = layout_of(b->tensor.dtype()).bytes;
    return bytes_a != bytes_b ? bytes_a > bytes_b : a->name < b->name;
  });
  return order;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata) {
  const std::vector<const NamedTensor*> order = file_order(tensors, path.string());
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t end = 0;
  for (const NamedTensor* item : order) {
    const size_t begin = end;
    end += item->tensor.bytes();
    const auto extents = item->tensor.shape().extents();
    header[item->name] = {{"dtype", spelling(item->tensor.dtype())},
                          {"shape", std::vector<int64_t>(extents.begin(), extents.end())},
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
