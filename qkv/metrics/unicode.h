#pragma once
// The little Unicode that the metrics need: text as code points, Python's notion of white space and of lower
// case (which sacreBLEU's scores depend on).

#include <string>
#include <string_view>
#include <vector>

namespace qkv::metrics {

// Never fails: each maximal invalid part of a sequence (overlong forms, surrogates, stray and missing
// continuation bytes) becomes one U+FFFD, as in Python's decode("utf-8", "replace").
std::u32string decode_utf8(std::string_view bytes);

// The code points must be below U+110000 and no surrogates, as decode_utf8 gives them.
std::string encode_utf8(std::u32string_view text);

// True where Python's str.isspace is: ASCII controls 9-13 and 28-31, space, no-break space, U+2000-200A, ...
bool is_space(char32_t code_point);

// The parts between runs of white space, without empty ones, as views into `text`. Python: text.split().
std::vector<std::u32string_view> split_whitespace(std::u32string_view text);

// Without the white space at its end. Python: text.rstrip().
std::u32string_view strip_right(std::u32string_view text);

// Python's text.lower(), with one simplification: whether a capital sigma ends its word is decided by the
// letters around it whose category has a case (Lu, Ll, Lt).
std::u32string lowercase(std::u32string_view text);

}  // namespace qkv::metrics
