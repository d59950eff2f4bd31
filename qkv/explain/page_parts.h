#pragma once
// Assembles HTML pages.

#include <map>
#include <string>
#include <string_view>

#include "qkv/tensor/tensor.h"

namespace qkv::explain {

// The parts specific to a page. Style and script follow the common ones (pages.h).
struct PageParts {
  std::string title;        // plain text; empty: "Attention"
  std::string_view markup;  // HTML
  std::string style;        // CSS
  std::string data;         // JSON escaped by inert()
  std::string script;       // JavaScript
};

// A complete, self-contained page.
std::string page_of(const PageParts& parts);

// Escapes JSON to ASCII that is safe inside <script>: no tag, entity or line separator can begin in it.
std::string inert(std::string_view json);

// Escapes text for HTML.
std::string html_text(std::string_view text);

// Replaces all {{NAMES}} of a text in one pass; values may contain anything, even such a name. Throws
// UsageError for a name without a value.
std::string filled(std::string_view text, const std::map<std::string, std::string, std::less<>>& values);

// [head][query][key] as JSON, each number with the shortest digits that parse back to the same float.
std::string json_numbers(const Tensor& weights);

// Base64 (RFC 4648), with padding.
std::string base64(std::string_view bytes);

}  // namespace qkv::explain
