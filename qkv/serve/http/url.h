#pragma once
// Percent-encoding (RFC 3986, and the forms of HTML).

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace qkv::serve {

using UrlFields = std::map<std::string, std::string, std::less<>>;

enum class ControlCharacters { refused, allowed };

// Percent-decoded; nothing if a percent sign is incomplete, or for control characters if they are refused.
std::optional<std::string> decode_url(std::string_view text, ControlCharacters controls);

// "a=1&b=2", with '+' for a space; the last value of a repeated name. Nothing as above.
std::optional<UrlFields> parse_url_fields(std::string_view text, ControlCharacters controls);

}  // namespace qkv::serve
