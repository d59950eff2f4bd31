#pragma once
// Attention among tiles, runs of tokens, for texts that are too long to draw every weight: 4,096 tokens have
// 16.8 million in each head.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "qkv/explain/attention_report.h"
#include "qkv/pipelines/text_attention.h"
#include "qkv/tensor/tensor.h"

namespace qkv::explain {

// Texts of more tokens than kMaxTokens have tiles unless told otherwise, the smallest that are at most
// kMaxTiles.
inline constexpr int64_t kMaxTokens = 256, kMaxTiles = 128;
int64_t tile_for(int64_t tokens);

// What the tokens of a tile give the tokens of each tile, on average: 1 / |I| sum_{i in I} sum_{j in J} w_ij.
// f32 [heads, queries, keys] -> [heads, queries / tile, keys / tile], rounded up; the last tile may be
// shorter. A query's weights still sum to 1. Throws ShapeError, UsageError for a tile below 1.
Tensor tile_weights(const Tensor& weights, int64_t tile);

// "32 Once …": the index of a tile's first token, and the token.
std::vector<std::string> tile_labels(const std::vector<std::string>& tokens, int64_t tile);

// Captures the attention of a text with the given sink, as capture_attention() does.
using CaptureText = std::function<pipelines::TextAttention(const pipelines::AttentionSink& sink)>;

// A report of tiles of `tile` tokens (0: tile_for() the text) with the statistics of the tokens. The weights
// of one layer are in memory at a time. Tiles of 1 token: attention_report() of all weights. A pair's
// boundary is that of the tile it is in. Throws the errors of capture() and attention_report(), UsageError
// for a negative tile.
AttentionReport tiled_report(const CaptureText& capture, int64_t tile, const std::string& title,
                             const std::string& model);

// The same of a text, which is the title, or of a pair (an empty `pair`: none). name: of the model.
AttentionReport tiled_report(const pipelines::LoadedLanguageModel& model, const std::string& text,
                             int64_t tile, const std::string& name);
AttentionReport tiled_report(const pipelines::LoadedTextEncoder& encoder, const std::string& text,
                             const std::string& pair, int64_t tile, const std::string& name);

}  // namespace qkv::explain
