#pragma once
// Times of words, from the cross attention of a decoder.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/models/speech_model.h"

namespace qkv::pipelines {

// Tokens that spell a word, with the space before it and punctuation around it.
struct WordTokens {
  std::string text = {};
  int64_t begin = 0, end = 0;  // places among the tokens
};

// Splits tokens of text at spaces; in languages that have none (`code`: "ja"), after each character that
// tokens complete.
std::vector<WordTokens> split_words(const text::Tokenizer& tokenizer, std::span<const int32_t> ids,
                                    const std::string& code);

// The path of least total cost through costs f32 [rows, columns] from the first to the last element, by steps
// to the next row, column, or both: for each row, the column at which the path enters it.
std::vector<int64_t> warped_columns(const Tensor& costs);

// For each token, and the end after them, the time at which it begins, in multiples of
// models::kTimestampSeconds. encoded: the window's rows from the encoder; length: those that are of audio.
// The tokens (of text alone) are read behind <|notimestamps|>, and dynamic time warping aligns them with the
// normalised, median-filtered weights of the model's alignment heads (openai/whisper's timing.py).
std::vector<int64_t> token_times(const models::SpeechModel& model, const Tensor& encoded, int64_t length,
                                 std::span<const int32_t> ids, std::span<const int32_t> start);

}  // namespace qkv::pipelines
