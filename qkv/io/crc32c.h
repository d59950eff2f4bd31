#pragma once
// CRC-32C (Castagnoli), the checksum of iSCSI (RFC 3720, appendix B.4), TFRecord files and, here, the tensors
// of model folders.

#include <cstdint>
#include <string_view>

namespace qkv::io {

// The checksum of `bytes`, or, given that of the bytes before them, of both together.
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);

// The masked form in TFRecord files, rotated and offset by a constant, for data that contain checksums
// themselves.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace qkv::io
