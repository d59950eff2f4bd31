#pragma once
// Character properties for tokenizers, from utf8proc's tables (Unicode 15 in Debian 12).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

// Unicode's White_Space.
bool is_white_space(char32_t character);
// \w in Rust's crate `regex`: letters, marks, decimal digits, letter-like numbers and symbols, connecting
// punctuation, joiners.
bool is_word_character(char32_t character);
// Category P, and ASCII symbols.
bool is_punctuation(char32_t character);
// Category N.
bool is_number(char32_t character);
// Categories Cc, Cf and Co: characters without a glyph.
bool is_other(char32_t character);
// Category Mn.
bool is_nonspacing_mark(char32_t character);
// Category M.
bool is_mark(char32_t character);

// Appends the lower case of a single character: one or two characters.
void append_lowercase(std::u32string& text, char32_t character);

// Appends the full decomposition of one character: canonical (NFD) or compatibility (NFKD).
void append_decomposition(std::u32string& text, char32_t character, bool compatible);
// Canonical_Combining_Class; 0: a starter.
uint8_t combining_class(char32_t character);
// The canonical composition of two characters; 0 if there is none.
char32_t compose(char32_t first, char32_t second);

// End positions, in bytes, of the extended grapheme clusters of valid UTF-8.
std::vector<size_t> grapheme_ends(std::string_view text);

}  // namespace qkv::text
