#include "apps/crossing.h"

#include <algorithm>

namespace qkv::apps {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";  // SentencePiece's symbol for a preceding space

// The tokens of the last occurrence of `word` before `followed_by`; empty if there is none.
std::vector<size_t> tokens_of(const std::vector<std::string>& tokens, const std::string& word,
                              const std::string& followed_by = {}) {
  std::string text;
  std::vector<size_t> begins;
  for (const std::string& token : tokens) {
    begins.push_back(text.size());
    if (token.starts_with(kSpaceMark)) {
      text += ' ';
      text += std::string_view(token).substr(kSpaceMark.size());
    } else {
      text += token;
    }
  }
  begins.push_back(text.size());
  const size_t begin = text.rfind(word + followed_by);
  if (begin == std::string::npos) return {};
  std::vector<size_t> found;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (begins[i] < begin + word.size() && begins[i + 1] > begin) found.push_back(i);
  }
  return found;
}

// The mean over `rows` of the sum over `columns`.
double share(const Tensor& weights, int64_t head, const std::vector<size_t>& rows,
             const std::vector<size_t>& columns) {
  const auto queries = static_cast<size_t>(weights.shape()[1]);
  const auto keys = static_cast<size_t>(weights.shape()[2]);
  double sum = 0;
  for (const size_t row : rows) {
    for (const size_t column : columns) {
      sum +=
          static_cast<double>(weights.values()[(static_cast<size_t>(head) * queries + row) * keys + column]);
    }
  }
  return sum / static_cast<double>(rows.size());
}

}  // namespace

std::optional<CrossingHead> strongest_crossing(const explain::AttentionReport& report,
                                               const std::vector<WordPair>& pairs) {
  struct Places {
    std::vector<size_t> rows, columns;
  };
  std::vector<Places> places;
  for (const WordPair& pair : pairs) {
    places.push_back({tokens_of(report.target_tokens, pair.target, pair.followed_by),
                      tokens_of(report.source_tokens, pair.source)});
    if (places.back().rows.empty() || places.back().columns.empty()) return std::nullopt;
  }
  if (places.empty()) return std::nullopt;

  std::optional<CrossingHead> best;
  const auto weakest = [](const CrossingHead& one) { return std::ranges::min(one.shares); };
  for (const explain::AttentionLayer& layer : report.layers) {
    if (layer.part != explain::Part::cross) continue;
    for (int64_t head = 0; head < layer.weights.shape()[0]; ++head) {
      CrossingHead one{.layer = layer.index, .head = static_cast<int>(head), .shares = {}};
      for (const Places& place : places)
        one.shares.push_back(share(layer.weights, head, place.rows, place.columns));
      if (!best || weakest(one) > weakest(*best)) best = std::move(one);
    }
  }
  return best;
}

}  // namespace qkv::apps
