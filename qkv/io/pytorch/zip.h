#pragma once
// ZIP archives whose entries are stored without compression, as torch.save() writes them (APPNOTE.TXT 6.3,
// with ZIP64).

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace qkv::io {

// Whether it begins as an archive does.
bool is_zip(std::span<const std::byte> file);

// The bytes of each entry, by name. Throws DataError, naming the file, for a truncated or inconsistent
// archive, and for compressed or encrypted entries.
std::map<std::string, std::span<const std::byte>> stored_entries(std::span<const std::byte> file,
                                                                 const std::string& name);

}  // namespace qkv::io
