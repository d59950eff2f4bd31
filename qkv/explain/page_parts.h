#pragma once
// What the pages of reports have in common.

#include <map>
#include <string>
#include <string_view>

#include "qkv/tensor/tensor.h"

namespace qkv::explain {

extern const char* const kPageFrame;   // HTML around a page's own part
extern const char* const kPageStyle;   // CSS
extern const char* const kPageCommon;  // JavaScript: colours, controls, the tooltip

// What a page has of its own.
struct PageParts {
  std::string title;  // text; empty: "Attention"
  std::string_view markup;
  std::string style, data,
      script;  // CSS, JSON that is inert(), JavaScript; style and script stand behind the common ones
};

// A whole page, without outside parts.
std::string page_of(const PageParts& parts);

// JSON in ASCII, so that it may stand inside <script>: no tag, entity or line separator can begin in it.
std::string inert(std::string_view json);

// Text as HTML.
std::string html_text(std::string_view text);

// Fills the {{NAMES}} of a text in one pass, so that a value may hold anything, even such a name.
std::string filled(std::string_view text, const std::map<std::string, std::string, std::less<>>& values);

// [head][query][key] as JSON, each number in the fewest digits that read back as the same float.
std::string json_numbers(const Tensor& weights);

// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace qkv::explain
