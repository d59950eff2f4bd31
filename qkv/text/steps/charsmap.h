#pragma once
// SentencePiece's map of characters: a trie over bytes whose values are places in a list of strings.

#include <string>
#include <string_view>

namespace qkv::text {

// Throws DataError beginning with `name` where the bytes are not such a map, or a step of its trie or a value
// leads out of it.
void check_charsmap(std::string_view charsmap, const std::string& name);

}  // namespace qkv::text
