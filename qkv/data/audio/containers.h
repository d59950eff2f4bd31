#pragma once
// Completeness of containers, which libsndfile does not check: it shortens what is missing.

#include <string>
#include <string_view>

namespace qkv::data {

// Throws DataError if a WAV (RIFF, RIFX, RF64) or AIFF file ends before its samples do, or has MPEG audio
// inside. A header of an unknown length, as programs write into pipes, promises nothing.
void require_whole_chunks(std::string_view bytes, const std::string& name);

// Throws DataError if an Ogg file (RFC 3533) has a page that is incomplete or has a wrong checksum, or more
// than one stream.
void require_whole_pages(std::string_view bytes, const std::string& name);

}  // namespace qkv::data
