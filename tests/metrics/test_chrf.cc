#include <gtest/gtest.h>

#include "golden.h"
#include "qkv/base/error.h"
#include "qkv/metrics/chrf.h"

namespace {

using namespace qkv::metrics;
using Lines = std::vector<std::string>;

TEST(Chrf, EqualsSacrebleu) {
  const auto corpora = golden::read_corpora();
  const auto rows = golden::read("chrf.tsv");
  ASSERT_GT(rows.size(), 100u);
  for (const auto& row : rows) {
    SCOPED_TRACE(row[0] + ": " + row[8]);
    const ChrfOptions options{.char_order = std::stoi(row[1]),
                              .word_order = std::stoi(row[2]),
                              .beta = std::stoi(row[3]),
                              .lowercase = row[4] == "1",
                              .whitespace = row[5] == "1",
                              .eps_smoothing = row[6] == "1"};
    const golden::Corpus& corpus = corpora.at(row[0]);
    const ChrfResult result = corpus_chrf(corpus.hypotheses, corpus.reference_sets, options);
    golden::expect_close(result.score, row[7], "score");
    EXPECT_EQ(format(result, options), golden::with_own_version(row[8]));
  }
}

TEST(Chrf, OneSetOfReferencesNeedsNoOuterVector) {
  const golden::Corpus corpus = golden::read_corpora().at("random");
  const ChrfResult one = corpus_chrf(corpus.hypotheses, corpus.reference_sets[0]);
  EXPECT_EQ(one.score, corpus_chrf(corpus.hypotheses, corpus.reference_sets).score);
  EXPECT_GT(one.score, 10);
  EXPECT_EQ(signature(one, {}), "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:qkv-0.1.0");
}

TEST(Chrf, ReadsInvalidUtf8) {
  const Lines broken{"abc\xff defg \xe4\xb8"}, repaired{"abc\xef\xbf\xbd defg \xef\xbf\xbd"};
  EXPECT_NEAR(corpus_chrf(broken, repaired).score, 100, 1e-9);
}

TEST(Chrf, RejectsMismatchedCorpora) {
  const Lines one{"a b"}, two{"a", "b"}, none;
  EXPECT_THROW(corpus_chrf(one, two), qkv::DataError);
  EXPECT_THROW(corpus_chrf(none, none), qkv::DataError);
  EXPECT_THROW(corpus_chrf(one, one, {.char_order = -1}), qkv::UsageError);
  EXPECT_THROW(corpus_chrf(one, one, {.char_order = 0}), qkv::UsageError);
  EXPECT_THROW(corpus_chrf(one, one, {.beta = 0}), qkv::UsageError);
}

}  // namespace
