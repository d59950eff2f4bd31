#pragma once
// SentencePiece's character map: a byte trie whose values are offsets into a list of strings.

#include <string>
#include <string_view>

namespace qkv::text {

// Throws DataError beginning with `name` if the bytes are not such a map, or a transition or value is out of
// bounds.
void check_charsmap(std::string_view charsmap, const std::string& name);

}  // namespace qkv::text
