#pragma once
// Python's white space and lower case, on which sacreBLEU's scores depend.

#include <string>
#include <string_view>
#include <vector>

namespace qkv::metrics {

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
