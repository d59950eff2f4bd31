// Tokenizers on invalid text, with streamed tokens, and on several threads.

#include "qkv/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"
#include "qkv/base/utf8.h"
#include "tests/support/scratch.h"

namespace qkv::text {
namespace {

Tokenizer golden(const std::string& name) {
  return Tokenizer::load(std::filesystem::path(QKV_TEST_DATA) / "text/golden" / (name + ".json"));
}

// Characters of one to four bytes, marks, white space, and invalid UTF-8.
std::string random_text(RandomStream& random, bool valid) {
  static const std::vector<std::string> kParts{"a",  "e",    " ",  "the ", "ing", "é", "e\u0301", "\u0323",
                                               "中", "\n",   "👍",  "🏽", "ß",   "ﬁ", "\u200b",  "ｱ",
                                               "9",  " \t ", "'s", "☺",    "א",   "ุ",  "Ω",       "."};
  static const std::vector<std::string> kBroken{"\xFF",         "\xC3",         "\xE4\xB8",
                                                "\xF0\x9F\x91", "\xED\xA0\x80", "\x80"};
  std::string text;
  for (uint64_t i = random.below(30); i > 0; --i) {
    text += valid || random.below(4) > 0 ? kParts[random.below(kParts.size())]
                                         : kBroken[random.below(kBroken.size())];
  }
  return text;
}

const std::vector<std::string> kNames{"wordpiece",     "byte_level",    "byte_level_few", "split_pattern",
                                      "byte_fallback", "unigram_bytes", "unigram",        "word_suffix"};

// The bytes of a text's tokens are the text, but for the space that a first token may begin with.
TEST(Tokenizer, TokensHaveBytes) {
  RandomStream random(3);
  const std::filesystem::path folder = std::filesystem::path(QKV_TEST_DATA) / "text/golden";
  int64_t characters_in_parts = 0, texts = 0;
  for (const char* file :
       {"byte_level.json", "byte_fallback.json", "unigram.json", "unigram_bytes.json", "wordpiece.json",
        "word_suffix.json", "sentencepiece_bpe.model", "sentencepiece_unigram.model"}) {
    SCOPED_TRACE(file);
    const Tokenizer tokenizer = Tokenizer::load(folder / file);
    for (int i = 0; i < 100; ++i) {
      const std::string text = "a " + random_text(random, /*valid=*/true);
      const std::vector<int32_t> ids =
          tokenizer.encode(text, {.special_tokens = false, .truncation = {}}).ids;
      if (std::ranges::any_of(ids, [&](int32_t id) { return !tokenizer.bytes(id); })) continue;
      ++texts;
      std::string bytes;
      for (const int32_t id : ids) {
        bytes += tokenizer.bytes(id).value();
        characters_in_parts += valid_utf8(tokenizer.bytes(id).value()) ? 0 : 1;
      }
      const std::string decoded = tokenizer.decode(ids, {.skip_special_tokens = false});
      const std::string trimmed = bytes.starts_with(' ') ? bytes.substr(1) : bytes;
      EXPECT_TRUE(decoded == bytes || decoded == trimmed || decoded + " " == trimmed)
          << decoded << "|" << bytes;
    }
    EXPECT_FALSE(tokenizer.bytes(-1));
    EXPECT_FALSE(tokenizer.bytes(static_cast<int32_t>(tokenizer.size())));
  }
  EXPECT_GT(characters_in_parts, 100);
  EXPECT_GT(texts, 600) << "those with an unknown token are left out";
}

TEST(Tokenizer, InvalidUtf8BecomesReplacementCharacters) {
  RandomStream random(7);
  for (const std::string& name : kNames) {
    const Tokenizer tokenizer = golden(name);
    for (int i = 0; i < 100; ++i) {
      const std::string broken = random_text(random, /*valid=*/false);
      const RepairedText repaired = repair_utf8(broken);
      ASSERT_TRUE(valid_utf8(repaired.text));
      const Encoding found = tokenizer.encode(broken), expected = tokenizer.encode(repaired.text);
      EXPECT_EQ(found.ids, expected.ids) << name;
      for (size_t t = 0; t < found.size(); ++t) {
        EXPECT_EQ(found.offsets[t].begin, repaired.sources[expected.offsets[t].begin]) << name;
        EXPECT_EQ(found.offsets[t].end, repaired.sources[expected.offsets[t].end]) << name;
        EXPECT_LE(found.offsets[t].end, broken.size());
      }
    }
  }
  // As Python's decode("utf-8", "replace"): one per maximal subpart.
  EXPECT_EQ(repair_utf8("a\xE4\xB8z\xF0\x9F\x91\xFF").text, "a\uFFFDz\uFFFD\uFFFD");
  EXPECT_EQ(repair_utf8("\xED\xA0\x80").text, "\uFFFD\uFFFD\uFFFD");
}

TEST(Tokenizer, StreamedTextNeverEndsWithinACharacter) {
  RandomStream random(11);
  for (const std::string& name : kNames) {
    const Tokenizer tokenizer = golden(name);
    int64_t waited = 0;
    for (int i = 0; i < 100; ++i) {
      const std::vector<int32_t> ids = tokenizer.encode(random_text(random, /*valid=*/true)).ids;
      StreamDecoder decoder(tokenizer);
      std::string text;
      for (const int32_t id : ids) {
        const std::string part = decoder.add(id);
        EXPECT_TRUE(valid_utf8(part)) << name;
        waited += part.empty() && !tokenizer.is_special(id);
        text += part;
      }
      text += decoder.finish();
      EXPECT_EQ(text, tokenizer.decode(ids)) << name;
    }
    if (name == "byte_level" || name == "byte_fallback") {  // characters arrive in parts
      EXPECT_GT(waited, 0) << name;
    }
  }
}

TEST(Tokenizer, StreamOfRandomIdsEqualsDecodingAll) {
  RandomStream random(13);
  for (const std::string name : {"byte_level", "split_pattern", "byte_fallback", "wordpiece"}) {
    const Tokenizer tokenizer = golden(name);
    for (int i = 0; i < 50; ++i) {
      std::vector<int32_t> ids;
      for (int n = 0; n < 40; ++n) {
        ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(tokenizer.size()))));
      }
      StreamDecoder decoder(tokenizer);
      std::string text;
      for (const int32_t id : ids) text += decoder.add(id);
      text += decoder.finish();
      EXPECT_TRUE(valid_utf8(text)) << name;
      if (name != "byte_fallback") {
        EXPECT_EQ(text, tokenizer.decode(ids)) << name;
      }
    }
  }
}

// A decoder that decoded the whole run for each token would take minutes.
TEST(Tokenizer, StreamsLongInvalidText) {
  for (const std::string name : {"byte_level", "byte_fallback"}) {
    const Tokenizer tokenizer = golden(name);
    const std::vector<int32_t> character =
        tokenizer.encode("\u4E2D", {.special_tokens = false, .truncation = {}}).ids;  // several byte tokens
    ASSERT_GT(character.size(), 1U) << name;
    std::vector<int32_t> ids(30'000, character.back());
    ids.insert(ids.end(), character.begin(), character.end() - 1);
    StreamDecoder decoder(tokenizer);
    std::string text;
    for (const int32_t id : ids) text += decoder.add(id);
    EXPECT_GT(text.size(), ids.size() - 100) << name << ": it arrives while it is written";
    EXPECT_EQ(text + decoder.finish(), tokenizer.decode(ids)) << name;
    if (name == "byte_fallback") continue;
    decoder = StreamDecoder(tokenizer);
    text.clear();
    ids.push_back(character.back());
    for (const int32_t id : ids) text += decoder.add(id);
    EXPECT_TRUE(text.ends_with("\u4E2D"));
    EXPECT_EQ(text, tokenizer.decode(ids));
  }
}

TEST(Tokenizer, ThreadsGetEqualResults) {
  const Tokenizer tokenizer = golden("split_pattern");
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> expected;
  RandomStream random(17);
  for (int i = 0; i < 200; ++i) {
    texts.push_back(random_text(random, /*valid=*/true));
    expected.push_back(golden("split_pattern").encode(texts.back()).ids);  // with an empty cache
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 5; ++round) {
        for (size_t i = 0; i < texts.size(); ++i) wrong[t] += tokenizer.encode(texts[i]).ids != expected[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(Tokenizer, LooksUpTokens) {
  const Tokenizer tokenizer = golden("wordpiece");
  EXPECT_EQ(tokenizer.id_of("[CLS]"), 2);
  EXPECT_EQ(tokenizer.token(3), "[SEP]");
  EXPECT_TRUE(tokenizer.is_special(4));
  EXPECT_FALSE(tokenizer.is_special(*tokenizer.id_of("fox")));  // added, but not special
  EXPECT_EQ(tokenizer.id_of("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.token(-1), std::nullopt);
  EXPECT_EQ(tokenizer.token(1 << 30), std::nullopt);
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{-5, 1 << 30, *tokenizer.id_of("fox")}), "fox");
  const Encoding pair = tokenizer.encode("a", "b");
  EXPECT_EQ(pair.text_index, (std::vector<int8_t>{-1, 0, -1, 1, -1}));
  EXPECT_EQ(pair.word_index, (std::vector<int32_t>{-1, 0, -1, 0, -1}));
}

TEST(Tokenizer, RejectsInvalidTruncation) {
  const Tokenizer tokenizer = golden("wordpiece");
  using qkv::testing::message_of;
  const auto encode = [&](Truncation truncation) {
    return message_of<UsageError>([&] { tokenizer.encode("a b c", "d e", {.truncation = truncation}); });
  };
  EXPECT_NE(encode({.max_length = 2}).find("at least 3"), std::string::npos);
  EXPECT_NE(encode({.max_length = 4, .strategy = TruncationStrategy::only_first}).find("first text"),
            std::string::npos);
  EXPECT_NE(encode({.max_length = 5, .strategy = TruncationStrategy::only_second}).find("second text"),
            std::string::npos);
  EXPECT_EQ(tokenizer.encode("a b c", "d e", {.truncation = Truncation{.max_length = 3}}).size(), 3u);
}

TEST(Tokenizer, LongPieceTakesLinearTime) {
  // Merging one pair at a time with a scan of all pairs would take hours.
  const Tokenizer tokenizer = golden("byte_fallback");
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "the"[i % 3];
  const Encoding encoding = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.decode(encoding.ids), text);
}

}  // namespace
}  // namespace qkv::text
