#include "qkv/explain/tiles.h"

#include <algorithm>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/explain/captured_report.h"

namespace qkv::explain {
namespace {

int64_t tiles_of(int64_t tokens, int64_t tile) { return tokens / tile + (tokens % tile != 0 ? 1 : 0); }

void require_tile(int64_t tile, int64_t least) {
  if (tile < least) throw UsageError(concat("tile: expected ", least, " or more tokens, found ", tile));
}

// The beginning of a long text, in whole characters.
std::string shortened(std::string text) {
  constexpr size_t kMost = 80;  // bytes
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + " \u2026";
}

}  // namespace

int64_t tile_for(int64_t tokens) { return tokens <= kMaxTokens ? 1 : tiles_of(tokens, kMaxTiles); }

Tensor tile_weights(const Tensor& weights, int64_t tile) {
  require_tile(tile, 1);
  if (!weights.defined() || weights.dtype() != DType::f32 || weights.rank() != 3 || weights.numel() == 0) {
    throw ShapeError(concat("tile_weights: expected f32 weights [heads, queries, keys], found ",
                            weights.defined() ? concat(qkv::name_of(weights.dtype()), " ", weights.shape())
                                              : std::string("none")));
  }
  const int64_t heads = weights.dim(0), queries = weights.dim(1), keys = weights.dim(2);
  const int64_t rows = tiles_of(queries, tile), columns = tiles_of(keys, tile);
  Tensor result = Tensor::zeros({heads, rows, columns});
  std::vector<double> sums(static_cast<size_t>(columns));
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = row * tile, end = first + std::min(tile, queries - first);
      std::ranges::fill(sums, 0);
      for (int64_t query = first; query < end; ++query) {
        const float* from = weights.data() + (head * queries + query) * weights.row_stride();
        for (int64_t key = 0; key < keys; ++key) sums[static_cast<size_t>(key / tile)] += from[key];
      }
      float* to = result.data() + (head * rows + row) * result.row_stride();
      for (size_t column = 0; column < sums.size(); ++column)
        to[column] = static_cast<float>(sums[column] / static_cast<double>(end - first));
    }
  }
  return result;
}

std::vector<std::string> tile_labels(const std::vector<std::string>& tokens, int64_t tile) {
  require_tile(tile, 1);
  std::vector<std::string> labels;
  for (int64_t i = 0; i < tiles_of(std::ssize(tokens), tile); ++i)
    labels.push_back(concat(i * tile, " ", tokens[static_cast<size_t>(i * tile)], " \u2026"));
  return labels;
}

AttentionReport tiled_report(const CaptureText& capture, int64_t tile, const std::string& title,
                             const std::string& model) {
  require_tile(tile, 0);
  AttentionReport tokens;  // without layers: what head_statistics() needs besides one
  std::vector<AttentionLayer> layers;
  pipelines::TextAttention text =
      capture([&](const pipelines::TextAttention& read, const search::CapturedAttention& attention) {
        if (layers.empty()) {
          if (tile == 0) tile = tile_for(std::ssize(read.tokens));
          tokens = attention_report(read, title, model);
        }
        layers.push_back(attention_layer(attention));
        if (tile == 1) return;
        layers.back().statistics = head_statistics(tokens, layers.back());
        layers.back().weights = tile_weights(layers.back().weights, tile);
      });
  AttentionReport report = std::move(tokens);
  report.layers = std::move(layers);
  if (tile < 2) return report;
  report.title = shortened(std::move(report.title));
  report.tile = tile;
  report.tiled_tokens = std::ssize(text.tokens);
  report.source_tokens = report.target_tokens = tile_labels(text.tokens, tile);
  report.source_special.clear();
  if (report.second_text) *report.second_text /= tile;
  return report;
}

AttentionReport tiled_report(const pipelines::LoadedLanguageModel& model, const std::string& text,
                             int64_t tile, const std::string& name) {
  return tiled_report(
      [&](const pipelines::AttentionSink& sink) { return pipelines::capture_attention(model, text, sink); },
      tile, text, name);
}

AttentionReport tiled_report(const pipelines::LoadedTextEncoder& encoder, const std::string& text,
                             const std::string& pair, int64_t tile, const std::string& name) {
  return tiled_report(
      [&](const pipelines::AttentionSink& sink) {
        return pair.empty() ? pipelines::capture_attention(encoder, text, sink)
                            : pipelines::capture_attention(encoder, text, pair, sink);
      },
      tile, pair.empty() ? text : concat(text, " | ", pair), name);
}

}  // namespace qkv::explain
