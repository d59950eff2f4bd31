#include "qkv/pipelines/answers/spans.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/text/steps/unicode.h"

namespace qkv::pipelines {
namespace {

using text::ByteRange;

// Without white space at its ends.
ByteRange trimmed(std::string_view text, ByteRange range) {
  auto [begin, end] = range;
  while (begin < end) {
    size_t next = begin;
    if (!text::is_white_space(next_character(text, next))) break;
    begin = next;
  }
  while (begin < end) {
    const size_t last = previous_character(text, end);
    size_t at = last;
    if (!text::is_white_space(next_character(text, at))) break;
    end = last;
  }
  return {begin, end};
}

bool has_white_space(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (text::is_white_space(next_character(text, at))) return true;
  }
  return false;
}

// Whether no white space lies between a word and what is seen of a token; bytes that no token has may.
bool joined(std::string_view text, ByteRange word, ByteRange token) {
  return token.begin <= word.end || !has_white_space(text.substr(word.end, token.begin - word.end));
}

// The word of each token of a whole text.
struct Words {
  std::vector<size_t> of_token;
  std::vector<ByteRange> ranges;
};

// A token continues the word of the previous one, if both are in one piece of the pre-tokenizer without white
// space between them. White space alone begins the next word of its piece, as a sentencepiece's "▁" does;
// where there is none, it is an empty word.
Words words_of_tokens(std::string_view text, std::span<const ByteRange> offsets,
                      std::span<const int32_t> pieces) {
  Words words;
  bool begins = false;  // the last word has white space alone
  for (size_t t = 0; t < offsets.size(); ++t) {
    const ByteRange own = trimmed(text, offsets[t]);
    const bool blank = own.begin == own.end, same_piece = t > 0 && pieces[t] == pieces[t - 1];
    if (same_piece && begins) {
      if (!blank) words.ranges.back() = own;
    } else if (same_piece && !blank && joined(text, words.ranges.back(), own)) {
      words.ranges.back().end = std::max(words.ranges.back().end, own.end);
    } else {
      words.ranges.push_back(own);
    }
    begins = blank;
    words.of_token.push_back(words.ranges.size() - 1);
  }
  // Normalizers remove accents; those at a word's end are its own.
  for (ByteRange& word : words.ranges) {
    for (size_t next = word.end; word.begin < word.end && next < text.size(); word.end = next) {
      if (!text::is_mark(next_character(text, next))) break;
    }
  }
  return words;
}

struct Column {
  std::vector<double> tokens;
  double none = 0;
};

Column normalised(const Tensor& logits, int64_t column, const AnswerTokens& tokens) {
  const auto logit = [&](int64_t row) { return double{logits.data()[row * 2 + column]}; };
  double most = tokens.none ? logit(*tokens.none) : -INFINITY;
  for (const int64_t row : tokens.rows) most = std::max(most, logit(row));
  Column result{.tokens = {}, .none = tokens.none ? std::exp(logit(*tokens.none) - most) : 0};
  double sum = result.none;
  for (const int64_t row : tokens.rows) sum += result.tokens.emplace_back(std::exp(logit(row) - most));
  for (double& value : result.tokens) value /= sum;
  result.none /= sum;
  return result;
}

// Hashes of parts of a text in constant time: polynomials modulo 2^64, of which the lower half is weak.
class PartHash {
 public:
  explicit PartHash(std::string_view text) : begin_(text.data()), sums_{0}, powers_{1} {
    for (const char c : text) {
      sums_.push_back(sums_.back() * kBase + static_cast<uint8_t>(c) + 1);
      powers_.push_back(powers_.back() * kBase);
    }
  }
  size_t operator()(std::string_view part) const {
    const auto from = static_cast<size_t>(part.data() - begin_), to = from + part.size();
    const uint64_t hash = sums_[to] - sums_[from] * powers_[part.size()];
    return hash ^ (hash >> 29);
  }

 private:
  static constexpr uint64_t kBase = 0x9E3779B97F4A7C15u;
  const char* begin_;
  std::vector<uint64_t> sums_, powers_;  // of the first bytes
};

// In descending order of probabilities, then in that of the text.
bool before(const LikelyRange& a, const LikelyRange& b) {
  if (a.probability != b.probability) return a.probability > b.probability;
  return std::pair(a.bytes.begin, a.bytes.end) < std::pair(b.bytes.begin, b.bytes.end);
}

// The ranges of words of one window, by text.
class RangesByText {
 public:
  // `window`: the bytes of its words.
  RangesByText(std::string_view text, ByteRange window)
      : text_(text.substr(window.begin, window.end - window.begin)),
        begin_(window.begin),
        found_(64, PartHash(text_)) {}

  void add(const LikelyRange& range) {
    const std::string_view part =
        text_.substr(range.bytes.begin - begin_, range.bytes.end - range.bytes.begin);
    const auto [place, added] = found_.try_emplace(part, Sum{range, range.probability});
    if (added) return;
    place->second.sum += range.probability;
    if (before(range, place->second.best)) place->second.best = range;
  }
  std::vector<LikelyRange> best(size_t count) const {
    std::vector<LikelyRange> ranges;
    for (const auto& [part, found] : found_) ranges.push_back({found.best.bytes, found.sum});
    const auto end = ranges.begin() + static_cast<std::ptrdiff_t>(std::min(count, ranges.size()));
    std::partial_sort(ranges.begin(), end, ranges.end(), before);
    ranges.erase(end, ranges.end());
    return ranges;
  }

 private:
  struct Sum {
    LikelyRange best;
    double sum;
  };
  std::string_view text_;
  size_t begin_;
  std::unordered_map<std::string_view, Sum, PartHash> found_;
};

}  // namespace

std::vector<AnswerTokens> answer_tokens(std::span<const text::EncodedWindow> windows, std::string_view text,
                                        std::optional<int32_t> none) {
  std::vector<AnswerTokens> result(windows.size());
  std::vector<ByteRange> offsets;  // of the tokens of the whole text
  std::vector<int32_t> pieces;
  for (size_t w = 0; w < windows.size(); ++w) {
    const auto& [encoding, begin] = windows[w];
    for (size_t t = 0; t < encoding.size(); ++t) {
      if (!result[w].none && encoding.text_index[t] < 0 && encoding.ids[t] == none)
        result[w].none = static_cast<int64_t>(t);
      if (encoding.text_index[t] != 1) continue;
      const auto [from, to] = encoding.offsets[t];
      if (from > to || to > text.size()) {
        throw UsageError(concat("answer: expected tokens within the text of ", text.size(),
                                " bytes, found bytes ", from, " to ", to));
      }
      const size_t token = begin + result[w].rows.size();
      result[w].rows.push_back(static_cast<int64_t>(t));
      if (token < offsets.size()) continue;
      offsets.push_back(encoding.offsets[t]);
      pieces.push_back(encoding.word_index[t]);
    }
  }
  const Words words = words_of_tokens(text, offsets, pieces);
  for (size_t w = 0; w < windows.size(); ++w) {
    AnswerTokens& tokens = result[w];
    if (tokens.rows.empty()) continue;
    const size_t first = words.of_token[windows[w].begin],
                 last = words.of_token[windows[w].begin + tokens.rows.size() - 1];
    for (size_t t = 0; t < tokens.rows.size(); ++t)
      tokens.word.push_back(words.of_token[windows[w].begin + t] - first);
    tokens.words.assign(words.ranges.begin() + static_cast<std::ptrdiff_t>(first),
                        words.ranges.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  }
  return result;
}

LikelyRanges likely_ranges(const Tensor& logits, const AnswerTokens& tokens, std::string_view text,
                           int64_t count, int64_t max_tokens) {
  const Column first = normalised(logits, 0, tokens), last = normalised(logits, 1, tokens);
  LikelyRanges result;
  if (tokens.none) result.none = first.none * last.none;
  if (tokens.rows.empty()) return result;
  ByteRange window = tokens.words.front();
  for (const ByteRange& word : tokens.words)
    window = {std::min(window.begin, word.begin), std::max(window.end, word.end)};
  RangesByText ranges(text, window);
  std::vector<double> sums;  // of the ranges that begin with one word, by their last
  for (size_t begin = 0, next = 0; begin < tokens.rows.size(); begin = next) {
    const size_t word = tokens.word[begin];
    sums.clear();
    for (next = begin; next < tokens.rows.size() && tokens.word[next] == word; ++next) {
      const size_t end = next + std::min(tokens.rows.size() - next, static_cast<size_t>(max_tokens));
      sums.resize(std::max(sums.size(), tokens.word[end - 1] - word + 1));
      for (size_t e = next; e < end; ++e) sums[tokens.word[e] - word] += first.tokens[next] * last.tokens[e];
    }
    const ByteRange from = tokens.words[word];
    for (size_t k = 0; k < sums.size(); ++k) {
      const ByteRange to = tokens.words[word + k];
      if (from.begin < from.end && to.begin < to.end && from.begin < to.end)
        ranges.add({{from.begin, to.end}, sums[k]});
    }
  }
  result.ranges = ranges.best(static_cast<size_t>(count));
  return result;
}

}  // namespace qkv::pipelines
