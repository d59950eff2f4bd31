#include <gtest/gtest.h>

#include <cmath>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "tests/data/documents.h"

namespace qkv::data {
namespace {

using testing::expect_contains;
using testing::expect_throw;
using testing::message_of;
using testing::Scratch;

class SentenceDocumentsTest : public ::testing::Test {
 protected:
  SentenceDocuments read(const std::string& text, const SentenceOptions& options = {}) const {
    return read_sentence_documents(scratch_.write("text", text), tokenizer_, options);
  }

  Scratch scratch_;
  text::Tokenizer tokenizer_ = text::Tokenizer::load(testing::write_vocabulary(scratch_));
};

TEST_F(SentenceDocumentsTest, ReadsDocumentsBetweenBlankLines) {
  const SentenceDocuments read_text =
      read("\n  \nThe cat sat.\nThe dog understanding\n\n \t\r\na mat\n", {.max_tokens = 9, .unknown = 1});
  EXPECT_EQ(read_text.ids, (std::vector<int32_t>{5, 6, 8, 16, 5, 7, 10, 11, 12, 13, 14}));
  EXPECT_EQ(read_text.sentence_begins, (std::vector<int64_t>{0, 4, 9, 11}));
  EXPECT_EQ(read_text.document_begins, (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(read_text.summary(), "2 documents, 3 sentences, 11 tokens");
  const DocumentCounts counts = read_text.counts();
  EXPECT_EQ(counts.documents, 2);
  EXPECT_EQ(counts.sentences, 3);
  EXPECT_EQ(counts.longest, 2);
}

TEST_F(SentenceDocumentsTest, CountsWhatIsCutUnknownAndSkipped) {
  const SentenceDocuments found = read("the cat sat ran\n\nthe zebra\n\xff\n\u200b\n",
                                       {.max_tokens = 3, .unknown = 1, .bad_utf8 = OnBadLine::skip});
  EXPECT_EQ(found.ids, (std::vector<int32_t>{5, 6, 8, 5, 1}));
  EXPECT_EQ(
      found.summary(),
      "2 documents, 2 sentences, 5 tokens (1 sentence cut, 1 unknown token, 1 line of invalid UTF-8 skipped, "
      "1 line without a token skipped)");
}

TEST_F(SentenceDocumentsTest, IsTheSameForAnyNumberOfThreads) {
  std::string text;
  for (int i = 0; i < 9000; ++i) text += i % 7 == 0 ? "the cat ran.\n\n" : "a dog sat under the mat\n";
  const int before = threads();
  set_threads(1);
  const SentenceDocuments one = read(text);
  set_threads(3);
  const SentenceDocuments three = read(text);
  set_threads(before);
  EXPECT_EQ(one.ids, three.ids);
  EXPECT_EQ(one.fingerprint(), three.fingerprint());
  EXPECT_EQ(one.sentences(), 9000);
  EXPECT_EQ(one.documents(), 1286 + 1);  // the last four lines too
}

TEST_F(SentenceDocumentsTest, FingerprintChangesWithTokensAndBounds) {
  const uint64_t one = read("the cat\nsat\n").fingerprint();
  EXPECT_EQ(one, read("the cat\nsat\n").fingerprint());
  EXPECT_NE(one, read("the cat\n\nsat\n").fingerprint());
  EXPECT_NE(one, read("the\ncat sat\n").fingerprint());
  EXPECT_NE(one, read("the dog\nsat\n").fingerprint());
}

TEST_F(SentenceDocumentsTest, EntropyOfSingleTokens) {
  // Four tokens: one half, two quarters.
  EXPECT_NEAR(read("the the cat dog").unigram_entropy(), 1.5 * std::log(2.0), 1e-12);
}

TEST_F(SentenceDocumentsTest, RefusesTextsWithoutSentencesOrDocuments) {
  expect_throw<DataError>("found an empty file", [&] { read(""); });
  expect_throw<DataError>("found no sentences", [&] { read("\n \n"); });
  expect_throw<DataError>("line 2, byte 1: expected UTF-8", [&] { read("the\n\xff\n"); });
  const auto refusal = [&](const std::string& text) {
    const auto path = scratch_.write("flat", text);
    return message_of<DataError>([&] { require_documents_for_pairs(count_documents(path), path); });
  };
  expect_contains(refusal("the cat\nthe dog\nran\n"), "found one document of 3 sentences; --no-nsp");
  expect_contains(refusal("the cat\n\nthe dog\n"), "found 2 documents of one sentence each");
  const auto good = scratch_.write("good", "the cat\nsat\n\nthe dog\n");
  require_documents_for_pairs(count_documents(good), good);
}

}  // namespace
}  // namespace qkv::data
