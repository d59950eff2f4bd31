#pragma once
// How a page is put together.

#include <map>
#include <string>
#include <string_view>

#include "qkv/tensor/tensor.h"

namespace qkv::explain {

// The parts that differ from page to page. Style and script follow the common ones (pages.h).
struct PageParts {
  std::string title;        // plain text; empty: "Attention"
  std::string_view markup;  // HTML
  std::string style;        // CSS
  std::string data;         // JSON that is inert()
  std::string script;       // JavaScript
};

// A whole page. It refers to nothing outside itself.
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
