#pragma once
// CRC-32C (Castagnoli), the checksum of the TFRecord format and of iSCSI (RFC 3720, appendix B.4).

#include <cstdint>
#include <string_view>

namespace qkv::io {

uint32_t crc32c(std::string_view bytes);

// As TFRecord stores it: rotated and shifted by a constant, so that the checksum of a text that itself holds
// checksums stays a good one.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace qkv::io
