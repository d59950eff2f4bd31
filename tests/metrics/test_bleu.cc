#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "golden.h"
#include "qkv/base/error.h"
#include "qkv/metrics/bleu.h"
#include "qkv/metrics/perplexity.h"

namespace {

using namespace qkv::metrics;
using Lines = std::vector<std::string>;

std::string joined(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += qkv::concat(text.empty() ? "" : " ", number);
  return text;
}

TEST(Bleu, EqualsSacrebleu) {
  const auto corpora = golden::read_corpora();
  const auto rows = golden::read("bleu.tsv");
  ASSERT_GT(rows.size(), 100u);
  for (const auto& row : rows) {
    SCOPED_TRACE(row[0] + ": " + row[13]);
    const BleuOptions options{
        .tokenize = row[1] == "13a" ? BleuOptions::Tokenize::mteval_13a : BleuOptions::Tokenize::none,
        .smooth = row[2] == "exp" ? BleuOptions::Smooth::exp : BleuOptions::Smooth::none,
        .lowercase = row[3] == "1",
        .effective_order = row[4] == "1",
        .max_order = std::stoi(row[5])};
    const golden::Corpus& corpus = corpora.at(row[0]);
    const BleuResult result = corpus_bleu(corpus.hypotheses, corpus.reference_sets, options);
    golden::expect_close(result.score, row[6], "score");
    const Lines precisions = golden::split(row[7], ' ');
    ASSERT_EQ(result.precisions.size(), precisions.size());
    for (size_t n = 0; n < precisions.size(); ++n) {
      golden::expect_close(result.precisions[n], precisions[n], "precision " + std::to_string(n + 1));
    }
    golden::expect_close(result.brevity_penalty, row[8], "brevity penalty");
    EXPECT_EQ(std::to_string(result.hypothesis_length), row[9]);
    EXPECT_EQ(std::to_string(result.reference_length), row[10]);
    EXPECT_EQ(joined(result.counts), row[11]);
    EXPECT_EQ(joined(result.totals), row[12]);
    EXPECT_EQ(format(result, options), golden::with_own_version(row[13]));
  }
}

TEST(Bleu, OneSetOfReferencesNeedsNoOuterVector) {
  const golden::Corpus corpus = golden::read_corpora().at("random");
  const BleuResult one = corpus_bleu(corpus.hypotheses, corpus.reference_sets[0]);
  EXPECT_EQ(one.score, corpus_bleu(corpus.hypotheses, corpus.reference_sets).score);
  EXPECT_GT(one.score, 10);
  EXPECT_EQ(signature(one, {}), "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:qkv-0.1.0");
}

TEST(Bleu, PrintsTheRequestedDigits) {
  const Lines same{"a b c d e"};
  EXPECT_EQ(
      format(corpus_bleu(same, same), {}, 1),
      "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:qkv-0.1.0 = 100.0 100.0/100.0/100.0/100.0 "
      "(BP = 1.000 ratio = 1.000 hyp_len = 5 ref_len = 5)");
}

TEST(Bleu, ReadsInvalidUtf8) {
  const Lines broken{"a\xff b c d \xe4\xb8"}, repaired{"a\xef\xbf\xbd b c d \xef\xbf\xbd"};
  EXPECT_NEAR(corpus_bleu(broken, repaired).score, 100, 1e-9);
}

std::string data_error(const Lines& hypotheses, const std::vector<Lines>& reference_sets) {
  try {
    corpus_bleu(hypotheses, reference_sets);
  } catch (const qkv::DataError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Bleu, NamesBothCountsOfUnequalCorpora) {
  EXPECT_EQ(data_error({"a", "b", "c"}, {{"a", "b"}}),
            "BLEU: expected one reference for each hypothesis, found 3 hypotheses and 2 references");
  EXPECT_EQ(data_error({"a", "b"}, {{"a", "b"}, {"a", "b", "c"}}),
            "BLEU: expected one reference for each hypothesis, found 2 hypotheses and 3 references in set 2");
  EXPECT_EQ(data_error({}, {{}}), "BLEU: expected at least one hypothesis, found an empty corpus");
  EXPECT_EQ(data_error({"a"}, {}), "BLEU: expected at least one set of references, found none");
}

TEST(Bleu, RefusesAnOrderBelowOne) {
  const Lines lines{"a b"};
  EXPECT_THROW(corpus_bleu(lines, lines, {.max_order = 0}), qkv::UsageError);
}

TEST(Perplexity, IsTheExponentialOfTheMean) {
  EXPECT_DOUBLE_EQ(perplexity(std::log(37.5)), 37.5);
  EXPECT_EQ(perplexity(0), 1);
  EXPECT_EQ(perplexity(1000), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(perplexity(std::nan(""))));
}

}  // namespace
