#include "qkv/hub/url.h"

#include <algorithm>
#include <charconv>

#include "qkv/base/error.h"

namespace qkv::hub {
namespace {

constexpr std::string_view kLettersAndDigits =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower);
  return result;
}

[[noreturn]] void reject_url(std::string_view text, const std::string& expected) {
  std::string shown(text.substr(0, 200));
  std::ranges::replace_if(
      shown, [](unsigned char c) { return c < 0x20 || c >= 0x7F; }, '?');
  throw DataError(concat("address '", shown, "': expected ", expected));
}

bool consists_of(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == text.npos;
}

std::string decode(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, code, 16).ptr == text.data() + i + 3) {
      result += static_cast<char>(code);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

std::string Url::authority() const {
  return host.find(':') == host.npos ? concat(host, ":", port) : concat("[", host, "]:", port);
}

std::string Url::origin() const {
  std::string at = authority();
  if (port == (tls ? 443 : 80)) at.resize(at.rfind(':'));
  return concat(tls ? "https://" : "http://", at);
}

Url parse_url(std::string_view text) {
  if (std::ranges::any_of(text, [](unsigned char c) { return c <= 0x20 || c == 0x7F; }))
    reject_url(text, "no spaces and control characters");
  Url url;
  const size_t scheme_end = text.find("://");
  const std::string scheme = lower_case(text.substr(0, std::min(scheme_end, text.size())));
  if (scheme_end == text.npos || (scheme != "http" && scheme != "https"))
    reject_url(text, "http:// or https://");
  url.tls = scheme == "https";
  std::string_view rest = text.substr(scheme_end + 3);
  rest = rest.substr(0, rest.find('#'));
  const size_t path = std::min(rest.find_first_of("/?\\"), rest.size());
  std::string_view at = rest.substr(0, path);
  const std::string_view target = rest.substr(path);
  // What servers leave unencoded although they must not.
  url.target = concat(target.starts_with('/') ? "" : "/", encode_url(target, "!#$%&'()*+,/:;=?@[]"));
  if (const size_t user = at.rfind('@'); user != at.npos) {
    url.user_info = decode(at.substr(0, user));
    at.remove_prefix(user + 1);
  }
  std::string_view port;
  if (at.starts_with('[')) {
    const size_t end = at.find(']');
    if (end == at.npos || !consists_of(at.substr(1, end - 1), "0123456789abcdefABCDEF:."))
      reject_url(text, "an IPv6 address in brackets");
    url.host = lower_case(at.substr(1, end - 1));
    port = at.substr(end + 1);
    if (!port.empty() && !port.starts_with(':')) reject_url(text, "a port behind the brackets");
  } else {
    const size_t colon = at.find(':');
    url.host = lower_case(at.substr(0, colon));
    if (!consists_of(url.host, concat(kLettersAndDigits, "-._"))) reject_url(text, "a host's name");
    port = colon == at.npos ? std::string_view() : at.substr(colon);
  }
  if (url.host.empty()) reject_url(text, "a host");
  url.port = url.tls ? 443 : 80;
  if (port.size() > 1) {
    const auto [end, error] = std::from_chars(port.data() + 1, port.data() + port.size(), url.port);
    if (error != std::errc() || end != port.data() + port.size() || url.port == 0)
      reject_url(text, "a port between 1 and 65535");
  }
  return url;
}

Url resolve_url(const Url& base, std::string_view reference) {
  const size_t scheme = reference.find("://");
  if (scheme != reference.npos && scheme < reference.find_first_of("/?#")) return parse_url(reference);
  if (reference.starts_with("//")) return parse_url(concat(base.tls ? "https:" : "http:", reference));
  if (reference.starts_with('/')) return parse_url(base.origin() + std::string(reference));
  const std::string path = base.target.substr(0, base.target.find('?'));
  if (reference.starts_with('?')) return parse_url(concat(base.origin(), path, reference));
  return parse_url(concat(base.origin(), path.substr(0, path.rfind('/') + 1), reference));
}

std::string encode_url(std::string_view text, std::string_view kept) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    if (kLettersAndDigits.find(c) != kLettersAndDigits.npos ||
        std::string_view("-._~").find(c) != std::string_view::npos || kept.find(c) != kept.npos) {
      result += c;
      continue;
    }
    const auto code = static_cast<unsigned char>(c);
    result += {'%', kDigits[code >> 4], kDigits[code & 15]};
  }
  return result;
}

}  // namespace qkv::hub
