#pragma once
// ZIP archives whose entries are stored without compression, as torch.save() writes them (APPNOTE.TXT 6.3,
// with ZIP64).

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace qkv::io {

// Whether it begins as an archive does.
bool is_zip(std::span<const std::byte> file);

struct StoredEntry {
  std::span<const std::byte> bytes;
  uint32_t checksum = 0;  // CRC-32 of the bytes; 0: torch.save() was told to compute none
};

// The CRC-32 of the ZIP format.
uint32_t crc32(std::span<const std::byte> bytes);

// The entries by name. Throws DataError, naming the file, for a truncated or inconsistent archive, and for
// compressed or encrypted entries.
std::map<std::string, StoredEntry> stored_entries(std::span<const std::byte> file, const std::string& name);

}  // namespace qkv::io
