#pragma once
// What every pipeline checks of a text, and the messages that its results carry. All return the empty string
// where nothing is wrong.

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace qkv::pipelines {

// "expected UTF-8, found a malformed character at byte 4".
std::string utf8_error(std::string_view text);

// "expected at most 20 tokens (the model's limit), found 31". Without a limit nothing is too long.
std::string length_error(int64_t tokens, std::optional<int64_t> limit,
                         const char* of = "tokens (the model's limit)");

// The message of a library's error; empty for null. What is no qkv::Error, such as std::bad_alloc, concerns
// more than one request and is thrown on.
std::string message_of(const std::exception_ptr& error);

}  // namespace qkv::pipelines
