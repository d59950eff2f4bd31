#include "qkv/serve/http/message.h"

#include <algorithm>
#include <array>
#include <utility>

#include "qkv/serve/http/url.h"

namespace qkv::serve {
namespace {

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool climbs(std::string_view path) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

bool FieldNameLess::operator()(std::string_view left, std::string_view right) const {
  return std::ranges::lexicographical_compare(left, right, {}, lower, lower);
}

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : found->second;
}

std::string_view reason_phrase(int status) {
  using Entry = std::pair<int, std::string_view>;
  static constexpr std::array kPhrases{Entry{200, "OK"},
                                       Entry{204, "No Content"},
                                       Entry{304, "Not Modified"},
                                       Entry{400, "Bad Request"},
                                       Entry{401, "Unauthorized"},
                                       Entry{403, "Forbidden"},
                                       Entry{404, "Not Found"},
                                       Entry{405, "Method Not Allowed"},
                                       Entry{408, "Request Timeout"},
                                       Entry{409, "Conflict"},
                                       Entry{413, "Content Too Large"},
                                       Entry{415, "Unsupported Media Type"},
                                       Entry{422, "Unprocessable Content"},
                                       Entry{429, "Too Many Requests"},
                                       Entry{431, "Request Header Fields Too Large"},
                                       Entry{500, "Internal Server Error"},
                                       Entry{501, "Not Implemented"},
                                       Entry{503, "Service Unavailable"},
                                       Entry{504, "Gateway Timeout"},
                                       Entry{505, "HTTP Version Not Supported"}};
  const auto found = std::ranges::find(kPhrases, status, &Entry::first);
  return found == kPhrases.end() ? std::string_view("Unknown") : found->second;
}

std::optional<Target> parse_target(std::string_view target) {
  // The absolute form, of clients of proxies (RFC 9112, section 3.2.2).
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const size_t path = target.find_first_of("/?", scheme.size());
    if (path == std::string_view::npos) return Target{"/", {}};
    if (target[path] == '?') return parse_target("/" + std::string(target.substr(path)));
    target.remove_prefix(path);
  }
  if (!target.starts_with('/')) return std::nullopt;
  const std::string text(target.substr(0, target.find('#')));
  const size_t mark = text.find('?');
  auto path = decode_url(text.substr(0, mark), ControlCharacters::refused);
  if (!path || climbs(*path)) return std::nullopt;
  auto query =
      parse_url_fields(mark == std::string::npos ? "" : text.substr(mark + 1), ControlCharacters::refused);
  if (!query) return std::nullopt;
  return Target{std::move(*path), std::move(*query)};
}

}  // namespace qkv::serve
