#include "qkv/text/compression.h"

#include <zlib.h>

#include <vector>

#include "qkv/base/error.h"

namespace qkv::text {

double compression_ratio(std::string_view text) {
  if (text.empty()) return 0;
  uLongf size = compressBound(text.size());
  std::vector<Bytef> bytes(size);
  if (compress(bytes.data(), &size, reinterpret_cast<const Bytef*>(text.data()), text.size()) != Z_OK)
    throw Error("zlib: expected a text to be compressed, found an error");
  return static_cast<double>(text.size()) / static_cast<double>(size);
}

}  // namespace qkv::text
