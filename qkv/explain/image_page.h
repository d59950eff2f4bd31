#pragma once
// The page of to_html() of a picture, in its parts, as attention_page.h.

namespace qkv::explain {

extern const char* const kImagePageMarkup;
extern const char* const kImagePageStyle;
extern const char* const kImagePageScript;

}  // namespace qkv::explain
