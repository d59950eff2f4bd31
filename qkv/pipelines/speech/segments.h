#pragma once
// From the tokens of a window of audio to timed segments.

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/models/speech_model.h"

namespace qkv::pipelines {

// A part of a window's tokens. Times are multiples of models::kTimestampSeconds, from the window's beginning.
struct TokenSegment {
  int64_t begin = 0, end = 0;
  std::vector<int32_t> ids = {};  // timestamps included
};

struct WindowSegments {
  std::vector<TokenSegment> segments = {};
  int64_t advance = 0;  // to the next window's beginning
};

// ids: without the end token. length: of the audio in the window. Segments end at pairs of timestamps; what
// follows the last pair is left to the next window, unless a single timestamp ends it (Radford et al. 2022,
// section 4.5; transformers' _retrieve_segment()).
WindowSegments split_segments(std::span<const int32_t> ids, const models::SpeechTokens& tokens,
                              int64_t length);

}  // namespace qkv::pipelines
