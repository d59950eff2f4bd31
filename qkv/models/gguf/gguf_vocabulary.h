#pragma once
// What the keys tokenizer.ggml.* of GGUF files mean.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace qkv::models {

// "tokenizer.ggml.token_type"
struct TokenType {
  static constexpr int64_t normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6;
};

// Files do not tell whether a WordPiece tokenizer lowercases. One that does has no capitals.
bool lowercases(std::span<const std::string_view> tokens, std::span<const int64_t> types);

// Byte-level tokenizers by "tokenizer.ggml.pre": how a text is divided before its bytes are merged.
struct Division {
  std::string_view name;
  const char* pattern;       // null: GPT-2's; "": digits one by one, then GPT-2's
  bool compose = false;      // Unicode's NFC first
  bool whole_words = false;  // a word that is a token is not merged
};
inline constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::array kDivisions{Division{"gpt-2", nullptr},
                                       Division{"default", nullptr},
                                       Division{"llama-bpe", kLlama3Pattern, false, true},
                                       Division{"smaug-bpe", kLlama3Pattern},
                                       Division{"dbrx", kLlama3Pattern},
                                       Division{"qwen2", kQwenPattern, true},
                                       Division{"smollm", ""},
                                       Division{"starcoder", ""},
                                       Division{"refact", ""},
                                       Division{"command-r", ""}};

}  // namespace qkv::models
