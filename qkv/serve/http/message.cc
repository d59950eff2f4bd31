#include "qkv/serve/http/message.h"

#include <algorithm>
#include <array>

namespace qkv::serve {
namespace {

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char letter = lower(digit);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

// Percent-decoded; nothing if a percent sign is incomplete or encodes a control character.
std::optional<std::string> decoded(std::string_view text, bool plus_is_space) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    char byte = text[i];
    if (byte == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      byte = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (byte == '+' && plus_is_space) {
      byte = ' ';
    }
    if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) return std::nullopt;
    result += byte;
  }
  return result;
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
  if (!target.starts_with('/')) return std::nullopt;
  const size_t fragment = target.find('#');
  target = target.substr(0, fragment);
  const size_t mark = target.find('?');
  Target result;
  auto path = decoded(target.substr(0, mark), false);
  if (!path || climbs(*path)) return std::nullopt;
  result.path = std::move(*path);
  if (mark == std::string_view::npos) return result;
  for (std::string_view rest = target.substr(mark + 1); !rest.empty();) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    auto key = decoded(pair.substr(0, equals), true);
    auto value = decoded(pair.substr(std::min(equals + 1, pair.size())), true);
    if (!key || !value) return std::nullopt;
    result.query[std::move(*key)] = std::move(*value);
  }
  return result;
}

}  // namespace qkv::serve
