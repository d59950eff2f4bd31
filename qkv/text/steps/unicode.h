#pragma once
// Properties of characters that tokenizers need, from utf8proc's tables (Unicode 15 in Debian 12).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

// Unicode's White_Space.
bool is_white_space(char32_t character);
// Letters, marks, decimal digits, letter-like numbers and symbols, connecting punctuation, joiners: what a
// regular expression of Rust's crate `regex` means by \w.
bool is_word_character(char32_t character);
// Category P, and all of ASCII's symbols.
bool is_punctuation(char32_t character);
// Categories N.
bool is_number(char32_t character);
// Categories Cc, Cf and Co: characters without a glyph.
bool is_other(char32_t character);
// Category Mn.
bool is_nonspacing_mark(char32_t character);
// Categories M.
bool is_mark(char32_t character);

// Lower case of one character alone: one or two characters, appended.
void append_lowercase(std::u32string& text, char32_t character);

// The full decomposition of one character, appended: canonical (NFD's) or by compatibility (NFKD's).
void append_decomposition(std::u32string& text, char32_t character, bool compatible);
// Canonical_Combining_Class; 0: a starter.
uint8_t combining_class(char32_t character);
// The character that NFC composes of two; 0 where it keeps both.
char32_t compose(char32_t first, char32_t second);

// The ends of the extended grapheme clusters of valid UTF-8, in bytes.
std::vector<size_t> grapheme_ends(std::string_view text);

}  // namespace qkv::text
