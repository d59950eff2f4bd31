#include "qkv/metrics/answers.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "qkv/base/utf8.h"
#include "qkv/metrics/unicode.h"

namespace qkv::metrics {
namespace {

constexpr std::u32string_view kPunctuation = U"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

// \w of Python's re, without the underscore.
bool is_alphanumeric(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

// Replaces the words a, an and the by spaces.
void remove_articles(std::u32string& text) {
  constexpr std::array<std::u32string_view, 3> kArticles{U"a", U"an", U"the"};
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && is_alphanumeric(text[end])) ++end;
    const std::u32string_view word = std::u32string_view(text).substr(begin, end - begin);
    if (std::ranges::count(kArticles, word) > 0)
      std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(begin), word.size(), U' ');
    begin = end + 1;
  }
}

std::vector<std::u32string> words_of(std::string_view answer) {
  std::u32string text = lowercase(decode_utf8(answer));
  std::erase_if(text, [](char32_t c) { return kPunctuation.find(c) != kPunctuation.npos; });
  remove_articles(text);
  std::vector<std::u32string> words;
  for (const std::u32string_view word : split_whitespace(text)) words.emplace_back(word);
  return words;
}

double f1_of(const std::vector<std::u32string>& answer, const std::vector<std::u32string>& right) {
  std::map<std::u32string_view, int64_t> left;
  for (const std::u32string& word : right) ++left[word];
  int64_t shared = 0;
  for (const std::u32string& word : answer) {
    if (const auto found = left.find(word); found != left.end() && found->second-- > 0) ++shared;
  }
  if (shared == 0) return 0;
  const double precision = static_cast<double>(shared) / static_cast<double>(answer.size());
  const double recall = static_cast<double>(shared) / static_cast<double>(right.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

std::string normalized_answer(std::string_view answer) {
  std::string text;
  for (const std::u32string& word : words_of(answer)) {
    if (!text.empty()) text += ' ';
    text += encode_utf8(word);
  }
  return text;
}

AnswerScore score_answer(std::string_view answer, std::span<const std::string> right) {
  const std::vector<std::u32string> found = words_of(answer);
  AnswerScore best;
  bool any = false;
  for (const std::string& one : right) {
    const std::vector<std::u32string> words = words_of(one);
    if (words.empty()) continue;
    any = true;
    best.exact = std::max(best.exact, words == found ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, f1_of(found, words));
  }
  if (!any) best.exact = best.f1 = found.empty() ? 1 : 0;
  return best;
}

}  // namespace qkv::metrics
