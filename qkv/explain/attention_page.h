#pragma once
// The page of to_html(), in its parts, which stand within what all pages have (page_parts.h).

namespace qkv::explain {

extern const char* const kPageMarkup;
extern const char* const kPageDrawing;  // JavaScript: functions from weights and tokens to pixels, no state
extern const char* const kPageScript;   // JavaScript: what is shown, and what the reader does

}  // namespace qkv::explain
