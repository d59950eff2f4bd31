// Answers that are spans of texts.

#include "qkv/pipelines/answers/answer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/pipelines/answers/spans.h"
#include "tests/support/golden.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using testing::expect_parts;

const std::filesystem::path kSpans = std::filesystem::path(QKV_TEST_DATA) / "models/golden/bert_spans";

// A window of "[CLS] question [SEP]" and these tokens of a text: their bytes and words.
struct Window {
  text::Encoding encoding;
  std::vector<float> logits;  // [tokens, 2]

  Window() {
    add(kNone, {}, -1, -1, 0, 0);
    add(7, {0, 3}, 0, 0, 50, 50);  // of the question, never an answer
  }
  void add(int32_t id, text::ByteRange bytes, int text, int32_t word, float first, float last) {
    encoding.ids.push_back(id);
    encoding.offsets.push_back(bytes);
    encoding.type_ids.push_back(0);
    encoding.special_mask.push_back(static_cast<uint8_t>(text < 0));
    encoding.text_index.push_back(static_cast<int8_t>(text));
    encoding.word_index.push_back(word);
    logits.insert(logits.end(), {first, last});
  }
  void token(text::ByteRange bytes, int32_t word, float first, float last) {
    add(9, bytes, 1, word, first, last);
  }
  LikelyRanges likely(std::string_view text, int64_t count = 10, int64_t most = 15) const {
    const std::vector<text::EncodedWindow> windows{{.encoding = encoding, .begin = 0}};
    return likely_ranges(Tensor::from(logits, {std::ssize(encoding.ids), 2}),
                         answer_tokens(windows, text, kNone).front(), text, count, most);
  }

  static constexpr int32_t kNone = 2;
};

std::vector<std::string> texts_of(const LikelyRanges& found, std::string_view text) {
  std::vector<std::string> texts;
  for (const LikelyRange& one : found.ranges)
    texts.emplace_back(text.substr(one.bytes.begin, one.bytes.end - one.bytes.begin));
  return texts;
}

TEST(LikelyRanges, AreProductsOfProbabilities) {
  Window window;
  const std::string text = "ab cd";
  window.token({0, 2}, 0, 1, -1);
  window.token({3, 5}, 1, 0.5f, 2);
  const LikelyRanges found = window.likely(text);
  const double first = std::exp(0) + std::exp(1) + std::exp(0.5),
               last = std::exp(0) + std::exp(-1) + std::exp(2);
  ASSERT_EQ(texts_of(found, text), (std::vector<std::string>{"ab cd", "cd", "ab"}));
  EXPECT_NEAR(found.ranges[0].probability, std::exp(1 + 2) / first / last, 1e-12);
  EXPECT_NEAR(found.ranges[1].probability, std::exp(0.5 + 2) / first / last, 1e-12);
  EXPECT_NEAR(found.ranges[2].probability, std::exp(1 - 1) / first / last, 1e-12);
  EXPECT_NEAR(found.none.value(), 1 / first / last, 1e-12);
  EXPECT_EQ(texts_of(window.likely(text, 10, 1), text), (std::vector<std::string>{"cd", "ab"}));
  EXPECT_EQ(texts_of(window.likely(text, 1), text), (std::vector<std::string>{"ab cd"}));
}

// Any span of tokens within words counts for these words; white space in a piece separates words, a character
// of several tokens does not.
TEST(LikelyRanges, AreWholeWords) {
  Window window;
  const std::string text = "un\xc3\xa9 deux, 3";
  window.token({0, 2}, 0, 1, 0);
  window.token({2, 4}, 0, 0, 1);  // two tokens of one character
  window.token({2, 4}, 0, 0, 2);
  window.token({4, 9}, 0, 3, 2);  // " deux"
  window.token({9, 10}, 1, -9, -9);
  window.token({10, 12}, 2, -9, -9);
  const LikelyRanges found = window.likely(text, 100);
  const std::vector<std::string> texts = texts_of(found, text);
  EXPECT_EQ(texts.size(), 10U) << "of four words";
  EXPECT_EQ(texts[0], "deux");
  const auto une = std::ranges::find(texts, "un\xc3\xa9") - texts.begin();
  ASSERT_LT(une, std::ssize(texts));
  double first = 1, last = 1;
  for (const auto& [a, b] : {std::pair{1.0, 0.0}, {0, 1}, {0, 2}, {3, 2}, {-9, -9}, {-9, -9}}) {
    first += std::exp(a);
    last += std::exp(b);
  }
  const double e = std::exp(1);
  const double sum = e * (1 + e + e * e) + (e + e * e) + e * e;
  EXPECT_NEAR(found.ranges[static_cast<size_t>(une)].probability, sum / first / last, 1e-9);
  for (const std::string& one : texts) EXPECT_FALSE(one.starts_with(' ') || one.ends_with(' ')) << one;
}

TEST(LikelyRanges, OfEqualTextsAreOneAnswer) {
  Window window;
  const std::string text = "a b a";
  window.token({0, 1}, 0, 1, 1);
  window.token({2, 3}, 1, 1.2f, 1.2f);
  window.token({4, 5}, 2, 1.1f, 1.1f);
  const LikelyRanges found = window.likely(text, 10, 1);
  ASSERT_EQ(texts_of(found, text), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(found.ranges[0].bytes.begin, 4U) << "the likelier place";
  double all = 1;
  for (const double x : {1.0, 1.2, 1.1}) all += std::exp(x);
  EXPECT_NEAR(found.ranges[0].probability, (std::exp(2) + std::exp(2.2)) / all / all, 1e-6);
}

// The number of answers changes nothing but their number.
TEST(LikelyRanges, SumOverAllPlacesOfAText) {
  Window window;
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += i % 3 == 0 ? "a " : i % 3 == 1 ? "b " : "c ";
    window.token({text.size() - 2, text.size() - 1}, i, static_cast<float>(i % 7) * 0.1f,
                 static_cast<float>(i % 5) * 0.1f);
  }
  const LikelyRanges all = window.likely(text, 1000, 4), one = window.likely(text, 1, 4);
  EXPECT_EQ(all.ranges.size(), 12U) << "three words, and three texts of each of two to four";
  ASSERT_EQ(one.ranges.size(), 1U);
  EXPECT_EQ(one.ranges[0].bytes, all.ranges[0].bytes);
  EXPECT_EQ(one.ranges[0].probability, all.ranges[0].probability);
  double sum = 0;
  for (const LikelyRange& range : all.ranges) sum += range.probability;
  EXPECT_LT(sum, 1);
  EXPECT_GT(sum, 3.5 / 301);
}

// Bytes that no token has, as accents and soft hyphens, do not separate words; those at an end are the
// word's.
TEST(LikelyRanges, KeepWordsWithUnseenCharactersWhole) {
  Window window;
  const std::string text =
      "Gyo\xcc\x8b"
      "r soft\xc2\xadhyphen Tr\xcc\x8c.";
  window.token({0, 3}, 0, 1, 0);
  window.token({5, 6}, 0, 0, 1);  // after the accent
  window.token({7, 11}, 1, 0, 0);
  window.token({13, 19}, 1, 0, 0);  // after the hyphen
  window.token({20, 22}, 2, 2, 2);  // before an accent
  window.token({24, 25}, 3, -9, -9);
  const LikelyRanges found = window.likely(text, 100);
  const std::vector<std::string> texts = texts_of(found, text);
  EXPECT_EQ(texts.size(), 10U);
  EXPECT_EQ(texts[0], "Tr\xcc\x8c");
  EXPECT_EQ(std::ranges::count(texts,
                               "Gyo\xcc\x8b"
                               "r"),
            1);
  EXPECT_EQ(std::ranges::count(texts, "soft\xc2\xadhyphen"), 1);
}

// Words that windows cut are whole in each; tokens of white space alone are no words.
TEST(AnswerTokens, OfWindowsHaveWholeWords) {
  Window first, second;
  const std::string text = "ab cdef  gh";
  first.token({0, 2}, 0, 0, 0);
  first.token({3, 5}, 1, 1, 1);
  second.token({3, 5}, 1, 0, 0);
  second.token({5, 7}, 1, 1, 1);
  second.token({7, 8}, 2, 5, 5);  // a space that is a piece
  second.token({8, 9}, 3, 0, 0);  // one that begins the next word
  second.token({9, 11}, 3, 0, 0);
  const std::vector<text::EncodedWindow> windows{{first.encoding, 0}, {second.encoding, 1}};
  const std::vector<AnswerTokens> tokens = answer_tokens(windows, text, Window::kNone);
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[0].words, (std::vector<text::ByteRange>{{0, 2}, {3, 7}}));
  EXPECT_EQ(tokens[1].words, (std::vector<text::ByteRange>{{3, 7}, {8, 8}, {9, 11}}));
  EXPECT_EQ(tokens[1].word, (std::vector<size_t>{0, 0, 1, 2, 2}));
  const LikelyRanges found = likely_ranges(Tensor::from(second.logits, {std::ssize(second.encoding.ids), 2}),
                                           tokens[1], text, 10, 15);
  EXPECT_EQ(texts_of(found, text), (std::vector<std::string>{"cdef", "cdef  gh", "gh"}));
}

TEST(LikelyRanges, RefuseTokensBeyondTheText) {
  Window window;
  window.token({0, 6}, 0, 0, 0);
  EXPECT_THROW(window.likely("ab"), UsageError);
  Window none;  // no tokens of the text
  EXPECT_TRUE(none.likely("ab").ranges.empty());
  Window empty;  // a token without bytes
  empty.token({1, 1}, 0, 0, 0);
  EXPECT_TRUE(empty.likely("ab").ranges.empty());
}

TEST(MergedAnswers, TakeTheBestWindowAndTheLeastCertainNone) {
  const auto answer = [](const char* text, size_t begin, float probability) {
    return Answer{.text = text, .begin = begin, .end = begin + 1, .probability = probability};
  };
  const std::vector<AnsweredText> windows{
      {.answers = {answer("a", 0, 0.2f), answer("", 0, 0.9f)}},
      {.answers = {answer("b", 5, 0.3f), answer("a", 7, 0.4f), answer("", 0, 0.25f)}}};
  const AnsweredText merged = QuestionAnswerer::merged(windows, {.top = 3});
  ASSERT_EQ(merged.answers.size(), 3U);
  EXPECT_EQ(merged.answers[0].text, "a");
  EXPECT_EQ(merged.answers[0].begin, 7U);
  EXPECT_EQ(merged.answers[1].text, "b");
  EXPECT_EQ(merged.answers[2].text, "");
  EXPECT_EQ(merged.answers[2].probability, 0.25f);
  const std::vector<AnsweredText> failed{windows[0], {.answers = {}, .error = "no"}};
  EXPECT_EQ(QuestionAnswerer::merged(failed, {}).error, "no");
  EXPECT_TRUE(QuestionAnswerer::merged(failed, {}).answers.empty());
}

// Windows that are prepared and finished one by one, in a batch with others, give the bits of the plain call.
TEST(QuestionAnswerer, HasTheSameBitsInAnyBatch) {
  const QuestionAnswerer answerer(kSpans);
  const std::string
      question = "the dog?",
      text = "a red dog and a blue dog sleep in the house of the man, and the man runs in the red house";
  const AnswerOptions options{.top = 5, .unanswerable = true, .window = 16, .shared = 4};
  const std::vector<AnswerRequest> windows = answerer.prepare(question, text, options);
  ASSERT_GT(windows.size(), 2U);
  std::vector<AnsweredText> finished(windows.size());
  for (size_t i = 0; i < windows.size(); ++i) {
    const std::vector<const EncoderRequest*> one{&windows[i]};
    encode(answerer.model(), one,
           [&](size_t, const Tensor& hidden) { finished[i] = answerer.finish(windows[i], hidden); });
  }
  const AnsweredText alone = QuestionAnswerer::merged(finished, options);
  const std::vector<QuestionedText> items{{"a man", "the man sleeps"}, {question, text}, {question, ""}};
  const std::vector<AnsweredText> all = answerer(items, options, 24);
  EXPECT_FALSE(all[2].error.empty());
  ASSERT_EQ(all[1].answers.size(), alone.answers.size());
  for (size_t i = 0; i < alone.answers.size(); ++i) {
    EXPECT_EQ(all[1].answers[i].text, alone.answers[i].text);
    EXPECT_EQ(all[1].answers[i].begin, alone.answers[i].begin);
    EXPECT_EQ(all[1].answers[i].probability, alone.answers[i].probability);
  }
}

TEST(QuestionAnswerer, WindowsOverlap) {
  const QuestionAnswerer answerer(kSpans);
  const std::string text = "a red dog a blue dog a red man a blue man a red house";
  const auto windows = answerer.prepare("dog", text, {.window = 9, .shared = 2});
  // 5 of 9 tokens are the text's; each window begins with the last 2 of the previous one.
  std::vector<size_t> begins;
  for (const AnswerRequest& window : windows) {
    EXPECT_EQ(window.error, "");
    EXPECT_LE(window.encoding.size(), 9U);
    begins.push_back(window.encoding.offsets[3].begin);
  }
  const text::Encoding whole = answerer.tokenizer().encode(text, {.special_tokens = false, .truncation = {}});
  ASSERT_EQ(begins.size(), (whole.size() - 5 + 2) / 3 + 1);
  for (size_t i = 0; i < begins.size(); ++i) EXPECT_EQ(begins[i], whole.offsets[3 * i].begin);
  EXPECT_EQ(windows.back().encoding.offsets[windows.back().encoding.size() - 2].end, text.size());
  // At most half of the 5: 2 again.
  EXPECT_EQ(answerer.prepare("dog", text, {.window = 9, .shared = 100}).size(), windows.size());
}

// However long the question is, the windows of a text are bounded, before they are made.
TEST(QuestionAnswerer, BoundsTheWindowsOfAText) {
  const QuestionAnswerer answerer(kSpans);
  std::string text;
  while (text.size() < (1 << 20) - 4) text += "a ";
  const std::vector<AnswerRequest> requests =
      answerer.prepare("a red dog runs and a man sleeps in the blue house", text, {.shared = 1});
  ASSERT_EQ(requests.size(), 1U);
  expect_parts(requests[0].error,
               {"windows: expected at most 2097152 tokens in all, found ", " windows of 20 tokens"});
}

TEST(QuestionAnswerer, RefusesWhatItCannotRead) {
  const QuestionAnswerer answerer(kSpans);
  const auto error = [&](std::string_view question, std::string_view text,
                         const AnswerOptions& options = {}) {
    const std::vector<AnswerRequest> requests = answerer.prepare(question, text, options);
    EXPECT_EQ(requests.size(), 1U);
    return requests.front().error;
  };
  expect_parts(error("", "a"), {"question: expected text, found none"});
  expect_parts(error("a", " \n"), {"expected text, found none"});
  expect_parts(error("a\xff", "a"), {"question: ", "UTF-8"});
  expect_parts(error("a", "\xff"), {"UTF-8"});
  expect_parts(error("a red dog", "a", {.window = 6}), {"question: expected at most 5 tokens", "found 6"});
  EXPECT_EQ(error("a red dog", "a", {.window = 7}), "");
  EXPECT_THROW(answerer.prepare("a", "a", {.window = 21}), UsageError);
  EXPECT_THROW(answerer.prepare("a", "a", {.top = 0}), UsageError);
  EXPECT_THROW(answerer.prepare("a", "a", {.shared = -1}), UsageError);
  EXPECT_THROW(QuestionAnswerer(kSpans.parent_path() / "bert_tokens"), DataError);
}

}  // namespace
}  // namespace qkv::pipelines
