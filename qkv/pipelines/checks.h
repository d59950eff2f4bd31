#pragma once
// Checks of input text that all pipelines share, and their error messages. The empty string means no error.

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace qkv::pipelines {

// "expected at most 1048576 bytes, found 2000000", "expected UTF-8, found a malformed character at byte 4".
std::string text_error(std::string_view text);
// Throws UsageError "NAME: ..." for a text with an error.
void require_text(std::string_view name, std::string_view text);

// "expected at most 20 tokens (the model's limit), found 31". No limit: no error.
std::string length_error(int64_t tokens, std::optional<int64_t> limit,
                         const char* of = "tokens (the model's limit)");

// "expected token ids from 0 to 360, found 361": a tokenizer may have more tokens than the model. `rows`: the
// number of ids below 0, each of which stands for one.
std::string ids_error(std::span<const int32_t> ids, int64_t vocabulary, int64_t rows = 0);

// The message of a qkv::Error; empty for null. Any other exception, such as std::bad_alloc, concerns more
// than one request and is rethrown.
std::string message_of(const std::exception_ptr& error);

}  // namespace qkv::pipelines
