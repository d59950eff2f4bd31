#pragma once
// Names of languages (ISO 639).

#include <string>
#include <string_view>

namespace qkv::pipelines {

// The code of a language's English name in any case, of those that Whisper's models know ("German": "de");
// other texts in lower case.
std::string language_code(std::string_view name);
// The inverse: the name in lower case; the code itself if it is unknown.
std::string language_name(std::string_view code);

}  // namespace qkv::pipelines
