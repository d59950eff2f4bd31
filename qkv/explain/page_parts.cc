#include "qkv/explain/page_parts.h"

#include <array>
#include <charconv>
#include <cstdint>

#include "qkv/base/error.h"
#include "qkv/explain/pages.h"

namespace qkv::explain {

std::string inert(std::string_view json) {
  std::string text;
  for (const char c : json) {
    switch (c) {
      case '<':
        text += "\\u003c";
        break;
      case '>':
        text += "\\u003e";
        break;
      case '&':
        text += "\\u0026";
        break;
      default:
        text += c;
    }
  }
  return text;
}

std::string html_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string filled(std::string_view text, const std::map<std::string, std::string, std::less<>>& values) {
  std::string result;
  for (;;) {
    const size_t begin = text.find("{{"), end = text.find("}}", begin);
    if (end == std::string_view::npos) return result.append(text);
    const std::string_view name = text.substr(begin + 2, end - begin - 2);
    const auto value = values.find(name);
    if (value == values.end())
      throw UsageError(concat("page: expected a value of {{", name, "}}, found none"));
    result.append(text.substr(0, begin)).append(value->second);
    text.remove_prefix(end + 2);
  }
}

std::string page_of(const PageParts& parts) {
  return filled(pages::kFrameHtml, {{"TITLE", html_text(parts.title.empty() ? "Attention" : parts.title)},
                                    {"STYLE", concat(pages::kCommonCss, parts.style)},
                                    {"MARKUP", std::string(parts.markup)},
                                    {"DATA", parts.data},
                                    {"SCRIPT", concat(pages::kCommonJs, parts.script)}});
}

std::string json_numbers(const Tensor& weights) {
  const int64_t heads = weights.dim(0), queries = weights.dim(1), keys = weights.dim(2);
  std::string text = "[";
  std::array<char, 32> digits{};
  for (int64_t head = 0; head < heads; ++head) {
    text += head ? ",[" : "[";
    for (int64_t query = 0; query < queries; ++query) {
      const float* row = weights.data() + (head * queries + query) * weights.row_stride();
      text += query ? ",[" : "[";
      for (int64_t key = 0; key < keys; ++key) {
        if (key) text += ',';
        text.append(digits.data(), std::to_chars(digits.begin(), digits.end(), row[key]).ptr);
      }
      text += ']';
    }
    text += ']';
  }
  return text + "]";
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = i; k < i + 3; ++k) {
      group = group << 8 | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      text += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63u] : '=';
    }
  }
  return text;
}

}  // namespace qkv::explain
