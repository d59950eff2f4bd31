#pragma once
// Completeness of containers, which libsndfile does not check: it shortens what is missing.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace qkv::data {

// Throws DataError if a WAV (RIFF, RIFX, RF64) or AIFF file ends before its samples do, or has MPEG audio
// inside. A header of an unknown length, as programs write into pipes, promises nothing.
void require_whole_chunks(std::string_view bytes, const std::string& name);

// Throws DataError if an Ogg file (RFC 3533) has a page that is incomplete or has a wrong checksum, lacks one
// between others, or has more than one stream, or no page in which sound ends.
void require_whole_pages(std::string_view bytes, const std::string& name);

// The length of the Ogg page at the beginning of these bytes, which may be fewer.
size_t ogg_page_length(std::string_view bytes);

// The checksum of a page of at least 27 bytes, little-endian in its bytes 22 to 25, which count as 0.
uint32_t ogg_checksum(std::string_view page);

}  // namespace qkv::data
