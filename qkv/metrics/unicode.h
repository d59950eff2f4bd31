#pragma once
// Python's definitions of white space and lower case, on which sacreBLEU's scores depend.

#include <string>
#include <string_view>
#include <vector>

namespace qkv::metrics {

// Python's str.isspace: ASCII controls 9-13 and 28-31, space, no-break space, U+2000-200A, ...
bool is_space(char32_t code_point);

// Splits at runs of white space, without empty parts, into views of `text`. Python: text.split().
std::vector<std::u32string_view> split_whitespace(std::u32string_view text);

// Removes trailing white space. Python: text.rstrip().
std::u32string_view strip_right(std::u32string_view text);

// Python's text.lower(), with one simplification: the final-sigma rule considers only letters of the cased
// categories Lu, Ll and Lt.
std::u32string lowercase(std::u32string_view text);

}  // namespace qkv::metrics
