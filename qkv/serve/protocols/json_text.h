#pragma once
// Small parts of the protocols' JSON.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/serve/error.h"

namespace qkv::serve {

using ResponseJson = nlohmann::ordered_json;

// The object as text, with U+FFFD in place of invalid UTF-8.
std::string dump(const ResponseJson& object);

// A quoted string, likewise. Unlike dump() it is for errors, as destructors of ResponseJson need memory.
std::string json_string(std::string_view text);

// A list of JSON values that are text already: [a, b].
std::string json_list(const std::vector<std::string>& values);

// The floats with the digits that read back as the same float: [0.1, ...].
std::string json_floats(const std::vector<float>& values);

// The floats in base64, little-endian, as OpenAI's "encoding_format": "base64".
std::string base64_floats(const std::vector<float>& values);

// Bytes of a response, and of what is repeated for each text, prediction or candidate.
inline constexpr size_t kMaxResponseBytes = 64 << 20, kMaxRepeatedBytes = 8 << 20;

// Adds the bytes of a part to those of a response. Throws HttpError (400) for more than `most`.
void add_bytes(size_t& response, size_t part, size_t most = kMaxResponseBytes);

// For a text that is read again for each of `texts` texts. Throws HttpError (400) naming the field beyond
// kMaxRepeatedBytes.
void require_short(const char* field, const std::string& text, size_t texts);

// Throws HttpError (400) naming the item, if the pipeline refused it.
void require_result(const std::string& error, const char* field, size_t item, bool is_list);

}  // namespace qkv::serve
