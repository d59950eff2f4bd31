#pragma once
// CRC-32C (Castagnoli), the checksum of the TFRecord format and of iSCSI (RFC 3720, appendix B.4).

#include <cstdint>
#include <string_view>

namespace qkv::io {

uint32_t crc32c(std::string_view bytes);

// The masked form that TFRecord stores: rotated and offset by a constant, because the CRC of data that
// contains CRCs is weak.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace qkv::io
