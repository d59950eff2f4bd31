// Metrics: empty and unequal corpora, text that is not UTF-8, options out of range.

#include <gtest/gtest.h>

#include <climits>
#include <limits>

#include "qkv/metrics/bleu.h"
#include "qkv/metrics/chrf.h"
#include "qkv/metrics/exact_match.h"
#include "qkv/metrics/perplexity.h"
#include "qkv/metrics/tokenize_13a.h"
#include "qkv/metrics/unicode.h"
#include "tests/support/misuse.h"

namespace {

using namespace qkv::metrics;
using namespace qkv::testing;
using Lines = std::vector<std::string>;

TEST(MisusedMetrics, Corpora) {
  const Lines none, one{"a b c d"}, two{"a b", "c d"};
  for (const auto& [hypotheses, references] :
       {std::pair{none, none}, {none, one}, {one, none}, {one, two}, {two, one}}) {
    THROWS("BLEU", corpus_bleu(hypotheses, references));
    THROWS("chrF", corpus_chrf(hypotheses, references));
    THROWS("exact match", exact_match(hypotheses, references));
    THROWS("BLEU", corpus_bleu(hypotheses, std::vector<Lines>{references, one}));
  }
  THROWS("BLEU", corpus_bleu(one, std::vector<Lines>{}));
  THROWS("chrF", corpus_chrf(one, std::vector<Lines>{}));
  // Empty texts, invalid UTF-8 and zero bytes have scores.
  const Lines strange{"", std::string("\xFF\xFE\x80"), std::string(3, '\0'), "\xED\xA0\x80",
                      "\xF4\x90\x80\x80"};
  for (const std::string& text : strange) {
    EXPECT_EQ(corpus_bleu({text}, Lines{""}).score, 0) << text;
    EXPECT_EQ(exact_match({text}, {text}).share(), 1) << text;
    EXPECT_EQ(tokenize_13a(text).empty(), text.empty()) << text;
  }
}

TEST(MisusedMetrics, Options) {
  const Lines text{"a b c d"};
  for (const int order : {0, -1, INT_MIN, INT_MAX})
    THROWS("BLEU", corpus_bleu(text, text, {.max_order = order}));
  for (const int order : {-1, INT_MIN, INT_MAX}) {
    THROWS("chrF", corpus_chrf(text, text, {.char_order = order}));
    THROWS("chrF", corpus_chrf(text, text, {.word_order = order}));
    THROWS("chrF", format(ChrfResult{}, {.word_order = order}));
    THROWS("digits", format(ChrfResult{}, {}, order));
    THROWS("digits", format(BleuResult{}, {}, order));
  }
  THROWS("chrF", corpus_chrf(text, text, {.char_order = 0}));
  for (const int beta : {0, -1, INT_MIN}) THROWS("chrF", corpus_chrf(text, text, {.beta = beta}));
  // A long order has no n-grams; a large beta leaves only recall.
  EXPECT_EQ(corpus_bleu(text, text, {.max_order = 1000}).counts.size(), 1000u);
  EXPECT_NEAR(corpus_chrf(text, text, {.beta = INT_MAX}).score, 100, 1e-9);
  EXPECT_EQ(perplexity(1e300), std::numeric_limits<double>::infinity());
}

}  // namespace
