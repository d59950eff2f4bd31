#include "qkv/io/tensor_file.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "qkv/base/error.h"

namespace qkv::io {

std::optional<DType> element_type(std::string_view spelling) {
  constexpr std::array<std::pair<std::string_view, DType>, 8> kTypes{{{"F32", DType::f32},
                                                                      {"F16", DType::f16},
                                                                      {"BF16", DType::bf16},
                                                                      {"I64", DType::i64},
                                                                      {"I32", DType::i32},
                                                                      {"I8", DType::i8},
                                                                      {"U8", DType::u8},
                                                                      {"BOOL", DType::u8}}};
  for (const auto& [name, dtype] : kTypes) {
    if (name == spelling) return dtype;
  }
  return std::nullopt;
}

void throw_no_tensor(const TensorFile& file, const std::string& name) {
  constexpr size_t kMostShown = 80;  // a corrupt file's name may be megabytes long
  const std::vector<std::string> names = file.names();
  const std::string first = names.empty() ? ""
                                          : concat(", ", names[0].substr(0, kMostShown),
                                                   names[0].size() > kMostShown ? "..." : "", " the first");
  throw DataError(concat(file.path().string(), ": expected a tensor ", name, ", found ", names.size(),
                         " tensors of other names", first));
}

Tensor mapped_tensor(const std::shared_ptr<MappedFile>& file, std::byte* data, const Shape& shape,
                     DType dtype, MapFor use, const std::string& origin) {
  // Blocks are read byte by byte.
  if (in_blocks(dtype) || reinterpret_cast<uintptr_t>(data) % layout_of(dtype).bytes == 0) {
    Tensor mapped = Tensor::wrap(Storage(file, data), shape, dtype);
    return use == MapFor::reading ? mapped.as_read_only(origin) : mapped;
  }
  const size_t bytes = bytes_of(dtype, shape.numel());
  Storage copy = allocate(bytes);
  std::memcpy(copy.get(), data, bytes);
  return Tensor::wrap(std::move(copy), shape, dtype);
}

}  // namespace qkv::io
