#include "qkv/pipelines/answers/spans.h"

#include <algorithm>
#include <cmath>

#include "qkv/base/error.h"

namespace qkv::pipelines {
namespace {

using text::ByteRange;

// Ranges that are compared for equal texts, beyond the number of answers.
constexpr size_t kMoreRanges = 100;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Adds a token: to the word of the previous one, if both are in one piece of the pre-tokenizer without white
// space between them.
void add_token(AnswerTokens& tokens, const text::Encoding& encoding, size_t t, std::string_view text) {
  auto [begin, end] = encoding.offsets[t];
  if (begin > end || end > text.size()) {
    throw UsageError(concat("answer: expected tokens within the text of ", text.size(),
                            " bytes, found bytes ", begin, " to ", end));
  }
  const bool spaced = begin < end && is_space(text[begin]);
  while (begin < end && is_space(text[begin])) ++begin;
  while (begin < end && is_space(text[end - 1])) --end;
  const bool continues =
      !tokens.rows.empty() && !spaced && begin <= tokens.words.back().end &&
      encoding.word_index[t] == encoding.word_index[static_cast<size_t>(tokens.rows.back())];
  if (continues) {
    tokens.words.back().end = end;
  } else {
    tokens.words.push_back({begin, end});
  }
  tokens.rows.push_back(static_cast<int64_t>(t));
  tokens.word.push_back(tokens.words.size() - 1);
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

// In descending order of probabilities, then in that of the text.
bool before(const LikelyRange& a, const LikelyRange& b) {
  if (a.probability != b.probability) return a.probability > b.probability;
  return std::pair(a.bytes.begin, a.bytes.end) < std::pair(b.bytes.begin, b.bytes.end);
}

// The `most` likeliest ranges of words, in order.
std::vector<LikelyRange> ranges_of_words(const AnswerTokens& tokens, const Column& first, const Column& last,
                                         size_t most, size_t max_tokens) {
  std::vector<LikelyRange> ranges;  // a heap
  std::vector<double> sums;         // of the ranges that begin with one word, by their last
  for (size_t begin = 0, next = 0; begin < tokens.rows.size(); begin = next) {
    const size_t word = tokens.word[begin];
    sums.clear();
    for (next = begin; next < tokens.rows.size() && tokens.word[next] == word; ++next) {
      const size_t end = next + std::min(tokens.rows.size() - next, max_tokens);
      sums.resize(std::max(sums.size(), tokens.word[end - 1] - word + 1));
      for (size_t e = next; e < end; ++e) sums[tokens.word[e] - word] += first.tokens[next] * last.tokens[e];
    }
    for (size_t k = 0; k < sums.size(); ++k) {
      const LikelyRange range{{tokens.words[word].begin, tokens.words[word + k].end}, sums[k]};
      if (range.bytes.begin >= range.bytes.end) continue;
      if (ranges.size() == most) {
        if (!before(range, ranges.front())) continue;
        std::ranges::pop_heap(ranges, before);
        ranges.pop_back();
      }
      ranges.push_back(range);
      std::ranges::push_heap(ranges, before);
    }
  }
  std::ranges::sort(ranges, before);
  return ranges;
}

}  // namespace

AnswerTokens answer_tokens(const text::Encoding& encoding, std::string_view text,
                           std::optional<int32_t> none) {
  AnswerTokens tokens;
  for (size_t t = 0; t < encoding.size(); ++t) {
    if (encoding.text_index[t] == 1) add_token(tokens, encoding, t, text);
    if (!tokens.none && encoding.text_index[t] < 0 && encoding.ids[t] == none)
      tokens.none = static_cast<int64_t>(t);
  }
  return tokens;
}

LikelyRanges likely_ranges(const Tensor& logits, const AnswerTokens& tokens, std::string_view text,
                           int64_t count, int64_t max_tokens) {
  const Column first = normalised(logits, 0, tokens), last = normalised(logits, 1, tokens);
  const auto wanted = static_cast<size_t>(count);
  LikelyRanges result;
  for (const LikelyRange& range :
       ranges_of_words(tokens, first, last, wanted + kMoreRanges, static_cast<size_t>(max_tokens))) {
    const auto text_of = [&](const LikelyRange& one) {
      return text.substr(one.bytes.begin, one.bytes.end - one.bytes.begin);
    };
    const auto same = std::ranges::find(result.ranges, text_of(range), text_of);
    if (same == result.ranges.end()) {
      result.ranges.push_back(range);
    } else {
      same->probability += range.probability;
    }
  }
  std::ranges::stable_sort(result.ranges, std::greater(), &LikelyRange::probability);
  if (result.ranges.size() > wanted) result.ranges.resize(wanted);
  if (tokens.none) result.none = first.none * last.none;
  return result;
}

}  // namespace qkv::pipelines
