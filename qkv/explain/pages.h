#pragma once
// The report pages: files of qkv/explain/pages/, embedded by the build (cmake/QkvEmbed.cmake).

#include <string_view>

namespace qkv::explain::pages {

// Common to all pages: the HTML frame, the style, and a script with colours, controls and the tooltip.
extern const std::string_view kFrameHtml, kCommonCss, kCommonJs;

// Attention of texts. The drawing script has stateless functions from weights and tokens to pixels; the other
// script holds the state and handles input.
extern const std::string_view kAttentionHtml, kAttentionDrawingJs, kAttentionJs;

// Attention of an image, overlaid on it.
extern const std::string_view kImageHtml, kImageCss, kImageJs;

}  // namespace qkv::explain::pages
