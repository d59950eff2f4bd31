#pragma once
// MP3 files (MPEG audio of layers 1 to 3), with libmpg123. libsndfile uses it too, but lets it print.

#include <cstdint>
#include <string>
#include <string_view>

#include "qkv/data/audio/audio.h"

namespace qkv::data {

// decode_audio() of these files. Silence that the encoder added at both ends is removed if the file says how
// much.
Audio decode_mp3(std::string_view bytes, const std::string& name, int64_t most_seconds);

}  // namespace qkv::data
