#pragma once
// The pages of reports: the files of qkv/explain/pages/, which the build embeds (cmake/QkvEmbed.cmake).

#include <string_view>

namespace qkv::explain::pages {

// Every page: the HTML around its own part, the style, and a script with colours, controls and the tooltip.
extern const std::string_view kFrameHtml, kCommonCss, kCommonJs;

// The attention of texts. The drawing script has functions from weights and tokens to pixels and no state;
// the other has the state, and what the reader does.
extern const std::string_view kAttentionHtml, kAttentionDrawingJs, kAttentionJs;

// The attention of an image, drawn over it.
extern const std::string_view kImageHtml, kImageCss, kImageJs;

}  // namespace qkv::explain::pages
