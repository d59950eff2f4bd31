#pragma once
// A checksum for each tensor of a safetensors file, in the file's metadata: "crc32c:NAME" is the CRC-32C of
// the tensor's bytes in the file, eight hexadecimal digits. Other readers ignore these keys.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/safetensors.h"

namespace qkv::io {

// `metadata` with the checksums of the tensors that a file will hold.
Metadata with_checksums(Metadata metadata, const std::vector<NamedTensor>& tensors);

struct ChecksumReport {
  int64_t matching = 0;                // tensors
  std::vector<std::string> differing;  // tensors whose bytes do not match their checksum
  std::vector<std::string> unchecked;  // tensors without a checksum
  std::vector<std::string> missing;    // tensors that have a checksum but are not in the file

  // Whether the file has checksums at all; files of other programs have none.
  bool carries_checksums() const { return matching > 0 || !differing.empty() || !missing.empty(); }
  // Whether all tensors match, or there is nothing to compare them with.
  bool good() const {
    return differing.empty() && missing.empty() && (unchecked.empty() || !carries_checksums());
  }
};

// Reads all tensors of the file, on all threads.
ChecksumReport verify_checksums(const SafetensorsFile& file);

// A checksum as eight hexadecimal digits.
std::string checksum_text(uint32_t checksum);

}  // namespace qkv::io
