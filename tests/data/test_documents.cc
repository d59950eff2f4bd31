#include "qkv/data/token_documents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "tests/support/letters.h"
#include "tests/support/scratch.h"

namespace qkv::data {
namespace {

using testing::expect_contains;
using testing::expect_throw;
using testing::letters;
using testing::message_of;
using testing::Scratch;
using Texts = std::vector<std::string>;

constexpr const char* kText = "a b\r\nc\n \t\n\n\nd\nlast";

TEST(Documents, EndAtBlankLinesLinesOrNowhere) {
  const Scratch scratch;
  const auto file = scratch.write("text", kText);
  EXPECT_EQ(read_documents(file, DocumentBounds::blank_lines).texts, (Texts{"a b\nc", "d\nlast"}));
  EXPECT_EQ(read_documents(file, DocumentBounds::lines).texts, (Texts{"a b", "c", "d", "last"}));
  EXPECT_EQ(read_documents(file, DocumentBounds::none).texts, (Texts{"a b\nc\n \t\n\n\nd\nlast\n"}));
  EXPECT_EQ(read_documents(file, DocumentBounds::lines).bytes(), 9);
}

TEST(Documents, RefuseEmptyTextsAndBadBytes) {
  const Scratch scratch;
  const auto message = [&](const char* content) {
    const auto file = scratch.write("text", content);
    return message_of<DataError>([&] { read_documents(file, DocumentBounds::none); });
  };
  EXPECT_NE(message("").find("text: expected text, found an empty file"), std::string::npos);
  expect_contains(message(" \n\t\n"), "expected text, found no line with more than white space");
  expect_contains(message("good\nb\xFF"
                          "d\n"),
                  "text, line 2, byte 2: expected UTF-8");
  const auto file = scratch.write("text",
                                  "good\nb\xFF"
                                  "d\n");
  const Documents kept = read_documents(file, DocumentBounds::lines, OnBadLine::skip);
  EXPECT_EQ(kept.texts, Texts{"good"});
  EXPECT_EQ(kept.skipped_bad_utf8, 1);
  EXPECT_THROW(read_documents(scratch / "none", DocumentBounds::none), IoError);
}

TEST(Documents, TheEndIsSplitOffInWholeDocumentsOrCharacters) {
  Documents some{.texts = {"aaaa", "bbb", "cc", "d"}};
  EXPECT_EQ(split_off(some, 0.3).texts, (Texts{"cc", "d"}));
  EXPECT_EQ(some.texts, (Texts{"aaaa", "bbb"}));
  Documents two{.texts = {"a", "bbbbbbbb"}};
  EXPECT_EQ(split_off(two, 0.01).texts, Texts{"bbbbbbbb"});
  Documents large_first{.texts = {"aaaaaaaaaaa", "b"}};
  EXPECT_EQ(split_off(large_first, 0.9).texts, Texts{"b"});
  Documents one{.texts = {"äöü6789012"}};
  EXPECT_EQ(split_off(one, 0.8).texts, Texts{"ü6789012"});
  EXPECT_EQ(one.texts, Texts{"äö"});
  Documents character{.texts = {"ä"}};
  expect_throw<DataError>("expected two or more characters", [&] { split_off(character, 0.5); });
}

TEST(TokenDocuments, HaveTokensAroundThemAndCountUnknownOnes) {
  const Documents documents{.texts = {"abx", "b", "\n"}};
  const TokenDocuments found =
      tokenize_documents(documents, letters("ab"), {.start = 7, .end = 8, .unknown = 0});
  EXPECT_EQ(found.ids, (std::vector<int32_t>{7, 1, 2, 0, 8, 7, 2, 8, 7, 0, 8}));
  EXPECT_EQ(found.begins, (std::vector<int64_t>{0, 5, 8, 11}));
  EXPECT_EQ(found.bytes, 5);
  EXPECT_EQ(found.unknown, 2);
  EXPECT_EQ(found.labels(), 8);
  const TokenDocuments plain = tokenize_documents(documents, letters("ab"));
  EXPECT_EQ(plain.ids, (std::vector<int32_t>{1, 2, 0, 2, 0}));
  EXPECT_EQ(plain.labels(), 2);
  EXPECT_NE(fingerprint(plain, letters("ab")), fingerprint(plain, letters("ac")));
  EXPECT_NE(fingerprint(plain, letters("ab")), fingerprint(found, letters("ab")));
}

// Long documents are encoded in parts, many at a time.
TEST(TokenDocuments, DoNotDependOnPartsAndThreads) {
  std::string text;
  while (text.size() < 700'000) text += "a b\n\n  a\nb\n";
  Documents documents{.texts = {text, "ab"}};
  for (int i = 0; i < 10'000; ++i) documents.texts.push_back(i % 3 == 0 ? "ba\na" : "b");
  const text::Tokenizer tokenizer = letters("ab \n");
  std::vector<int32_t> expected;
  for (const std::string& one : documents.texts) {
    for (const char c : one) expected.push_back(c == 'a' ? 1 : c == 'b' ? 2 : c == ' ' ? 3 : 4);
    expected.push_back(9);
  }
  const int before = threads();
  for (const int count : {1, 3}) {
    set_threads(count);
    const TokenDocuments found =
        tokenize_documents(documents, tokenizer, {.start = {}, .end = 9, .unknown = {}});
    EXPECT_EQ(found.ids, expected);
    EXPECT_EQ(found.documents(), 10'002);
  }
  set_threads(before);
}

TokenDocuments of_lengths(const std::vector<int>& lengths) {
  TokenDocuments documents;
  for (const int length : lengths) {
    for (int i = 0; i < length; ++i) documents.ids.push_back(static_cast<int32_t>(documents.ids.size()));
    documents.begins.push_back(documents.tokens());
  }
  documents.bytes = documents.tokens();
  return documents;
}

// How often each token is predicted, and with how many tokens before it in its window.
std::map<int64_t, std::vector<int64_t>> predictions(const std::vector<TokenWindow>& windows) {
  std::map<int64_t, std::vector<int64_t>> found;
  for (const TokenWindow& window : windows) {
    for (int64_t i = window.context; i < window.tokens; ++i) found[window.begin + i + 1].push_back(i + 1);
  }
  return found;
}

TEST(TokenWindows, TrainingPredictsEachTokenOncePerEpoch) {
  const TokenDocuments documents = of_lengths({1, 2, 9, 100, 10, 11});
  std::vector<std::vector<TokenWindow>> epochs;
  for (const int64_t epoch : {0, 1}) {
    const std::vector<TokenWindow> windows = training_windows(documents, 9, 5, epoch);
    EXPECT_EQ(windows, training_windows(documents, 9, 5, epoch));
    const auto found = predictions(windows);
    EXPECT_EQ(std::ssize(found), documents.labels());
    for (const auto& [token, contexts] : found) {
      EXPECT_EQ(contexts.size(), 1u) << token;
      EXPECT_EQ(std::ranges::count(documents.begins, token), 0) << "the first token of a document";
    }
    for (const TokenWindow& window : windows) {
      EXPECT_LE(window.tokens, 9);
      EXPECT_GE(window.tokens, 1);
      EXPECT_EQ(window.context, 0);
    }
    // Documents of at most 9 predictions are one window.
    EXPECT_EQ(windows[0], (TokenWindow{.begin = 1, .tokens = 1}));
    EXPECT_EQ(windows[1], (TokenWindow{.begin = 3, .tokens = 8}));
    epochs.push_back(windows);
  }
  EXPECT_NE(epochs[0], epochs[1]) << "cut at other places";
  EXPECT_NE(epochs[0], training_windows(documents, 9, 6, 0));
}

TEST(TokenWindows, EvaluationGivesEachTokenItsContext) {
  const TokenDocuments documents = of_lengths({1, 5, 100, 9});
  for (const int64_t stride : {1, 3, 8}) {
    const auto found = predictions(evaluation_windows(documents, 8, stride));
    EXPECT_EQ(std::ssize(found), documents.labels());
    for (const auto& [token, contexts] : found) {
      ASSERT_EQ(contexts.size(), 1u);
      const auto next = std::ranges::upper_bound(documents.begins, token);
      const int64_t before = token - *(next - 1);  // tokens of the document before it
      EXPECT_GE(contexts[0], std::min<int64_t>(before, 8 - stride + 1)) << token << " stride " << stride;
      EXPECT_LE(contexts[0], std::min<int64_t>(before, 8));
    }
  }
  expect_throw<UsageError>("stride: expected 1 to 8 tokens, the context, found 9",
                           [&] { evaluation_windows(documents, 8, 9); });
  expect_throw<DataError>("expected two or more tokens in a document, found 2 in 2 documents", [&] {
    evaluation_windows(of_lengths({1, 1}), 8, 4);
  });
}

TEST(TokenWindows, RowsAreInputsAndTheNextTokens) {
  const TokenDocuments documents = of_lengths({3, 5});
  const WindowRows rows = window_rows(documents, std::vector<TokenWindow>{{4, 3, 0}, {0, 2, 0}});
  EXPECT_EQ(rows.inputs.ids, (std::vector<int32_t>{4, 5, 6, 0, 1}));
  EXPECT_EQ(rows.inputs.offsets, (std::vector<int32_t>{0, 3, 5}));
  EXPECT_EQ(rows.labels, (std::vector<int32_t>{5, 6, 7, 1, 2}));
}

TEST(WindowCursor, ContinuesFromEveryPosition) {
  const TokenDocuments documents = of_lengths({40, 3, 7, 25, 12});
  WindowCursor whole(documents, 8, 16, 4);
  std::vector<CursorState> states;
  std::vector<std::vector<TokenWindow>> batches;
  int64_t tokens = 0;
  while (whole.state().epoch < 3) {
    states.push_back(whole.state());
    batches.push_back(whole.next());
    int64_t cost = 0;
    for (const TokenWindow& window : batches.back()) cost += window.tokens;
    EXPECT_LE(cost, 16);
    tokens += cost;
  }
  EXPECT_EQ(tokens, 3 * documents.labels());
  for (size_t i = 0; i < states.size(); ++i) {
    WindowCursor part(documents, 8, 16, 4, states[i]);
    for (size_t j = i; j < std::min(i + 12, batches.size()); ++j) EXPECT_EQ(part.next(), batches[j]);
  }
  EXPECT_THROW(WindowCursor(documents, 8, 16, 4, {.epoch = 0, .batch = 100}), UsageError);
}

}  // namespace
}  // namespace qkv::data
