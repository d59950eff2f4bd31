#pragma once
// WAV, AIFF, FLAC and Ogg files, with libsndfile.

#include <cstdint>
#include <string>
#include <string_view>

#include "qkv/data/audio/audio.h"

namespace qkv::data {

// decode_audio() of these formats; `format` names the file's in messages.
Audio decode_sound_file(std::string_view bytes, const std::string& name, const char* format,
                        int64_t most_seconds);

}  // namespace qkv::data
