#pragma once

#include <vector>

#include "qkv/serve/protocols/route.h"

namespace qkv::serve {

// OpenAI's /v1/audio/transcriptions and /v1/audio/translations.
std::vector<Route> audio_routes();

}  // namespace qkv::serve
