#pragma once
// Checks of arguments.

#include <cstdint>

#include "qkv/data/audio/audio.h"

namespace qkv::data {

// Throws UsageError for a rate outside kMinAudioRate to kMaxAudioRate.
void require_audio_rate(int64_t rate);

// Likewise for the audio's, and for a sample that is not finite.
void require_audio(const Audio& audio);

}  // namespace qkv::data
