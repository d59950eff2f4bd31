#pragma once
// Addresses of HTTP (RFC 3986), as far as downloads need them.

#include <cstdint>
#include <string>
#include <string_view>

namespace qkv::hub {

struct Url {
  bool tls = false;  // https
  std::string host;  // in lower case; an IPv6 address without brackets
  uint16_t port = 0;
  std::string target;     // path and query, percent-encoded: "/a/b?c=d"
  std::string user_info;  // of a proxy: "NAME:PASSWORD", decoded

  // "https://host", with a port that is not the scheme's, without user and target.
  std::string origin() const;
  // "host:port", with brackets around an IPv6 address.
  std::string authority() const;
  std::string text() const { return origin() + target; }
};

// Throws DataError for other schemes, and for an invalid host, port or control character. A fragment is
// dropped.
Url parse_url(std::string_view text);

// A reference found at `base`: absolute, or relative to its scheme, host or folder.
Url resolve_url(const Url& base, std::string_view reference);

// Percent-encodes all but letters, digits, "-._~" and the characters of `kept`.
std::string encode_url(std::string_view text, std::string_view kept);

}  // namespace qkv::hub
