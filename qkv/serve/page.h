#pragma once
// The files of the page, embedded by qkv_embed().

#include <string_view>

namespace qkv::serve::page {

extern const std::string_view kIndexHtml, kPageCss, kPageJs, kRecordJs;

}  // namespace qkv::serve::page
