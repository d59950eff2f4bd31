// Words of tokens, dynamic time warping, and the ratio of compression.

#include "qkv/pipelines/speech/word_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/speech/languages.h"
#include "qkv/text/compression.h"
#include "tests/support/random.h"

namespace qkv::pipelines {
namespace {

const std::filesystem::path kTinyFolder = QKV_TEST_DATA "/apps/golden/hub/whisper-tiny";

// The columns at which the path of least cost enters each row, of all paths.
std::vector<int64_t> best_of_all_paths(const Tensor& costs) {
  const int64_t rows = costs.rows(), cols = costs.cols();
  double best = std::numeric_limits<double>::infinity();
  std::vector<int64_t> entered(static_cast<size_t>(rows)), found;
  const std::function<void(int64_t, int64_t, double)> go = [&](int64_t r, int64_t c, double sum) {
    sum += costs.data()[r * cols + c];
    if (r == rows - 1 && c == cols - 1) {
      if (sum < best) {
        best = sum;
        found = entered;
      }
      return;
    }
    if (c + 1 < cols) go(r, c + 1, sum);
    if (r + 1 == rows) return;
    for (int64_t next = c; next <= std::min(c + 1, cols - 1); ++next) {
      entered[static_cast<size_t>(r + 1)] = next;
      go(r + 1, next, sum);
    }
  };
  entered[0] = 0;
  go(0, 0, 0);
  return found;
}

TEST(WarpedColumns, AreThoseOfTheBestOfAllPaths) {
  uint64_t seed = 0;
  for (int64_t rows = 1; rows <= 5; ++rows) {
    for (int64_t cols = 1; cols <= 6; ++cols) {
      for (int i = 0; i < 6; ++i) {
        const Tensor costs = testing::random_tensor({rows, cols}, ++seed);
        EXPECT_EQ(warped_columns(costs), best_of_all_paths(costs)) << rows << " x " << cols;
      }
    }
  }
}

TEST(WarpedColumns, FollowADiagonal) {
  Tensor costs = Tensor::full({3, 6}, 1.0f);
  for (const auto& [row, column] : {std::pair{0, 0}, {0, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 5}})
    costs.data()[row * 6 + column] = -1;
  EXPECT_EQ(warped_columns(costs), (std::vector<int64_t>{0, 2, 5}));
}

class SplitWords : public ::testing::Test {
 protected:
  std::vector<int32_t> ids_of(const std::string& text) const {
    text::EncodeOptions options;
    options.special_tokens = false;
    return tokenizer_.encode(text, options).ids;
  }
  // Words as "text|text", after checks of their places.
  std::string split(const std::vector<int32_t>& ids, const std::string& code = "en") const {
    std::string all;
    int64_t place = 0;
    for (const WordTokens& word : split_words(tokenizer_, ids, code)) {
      EXPECT_EQ(word.begin, place);
      EXPECT_LT(word.begin, word.end);
      place = word.end;
      all += (all.empty() ? "" : "|") + word.text;
    }
    EXPECT_EQ(place, std::ssize(ids));
    return all;
  }
  std::string split(const std::string& text, const std::string& code = "en") const {
    return split(ids_of(text), code);
  }
  int32_t id_of_byte(unsigned char byte) const {
    for (int32_t id = 0; id < 256; ++id) {
      if (tokenizer_.bytes(id) == std::string(1, static_cast<char>(byte))) return id;
    }
    ADD_FAILURE() << "no token of byte " << int{byte};
    return 0;
  }

  const text::Tokenizer tokenizer_ = models::load_tokenizer(QKV_TEST_DATA "/apps/golden/hub/whisper-tiny");
};

TEST_F(SplitWords, EndAtSpaces) {
  EXPECT_EQ(split(" the dogma runs in paris"), " the| dogma| runs| in| paris");
  EXPECT_EQ(split("Paris blue"), "Paris| blue");
  EXPECT_EQ(split(std::vector<int32_t>{}), "");
}

TEST_F(SplitWords, HavePunctuationAroundThem) {
  EXPECT_EQ(split(" the dog, and \"the man\" runs."), " the| dog,| and| \"the| man\"| runs.");
  EXPECT_EQ(split(" the (red) house!?"), " the| (red)| house!?");
  EXPECT_EQ(split(" the / dog"), " the| /| dog") << "neither opens nor closes";
  EXPECT_EQ(split(" the ( \"dog"), " the| (| \"dog");
  EXPECT_EQ(split(" the  dog "), " the|  dog| ");
}

// With tokens for a space and the mark, as large vocabularies have them.
TEST_F(SplitWords, HaveOpeningMarksInARowBeforeThem) {
  auto json = nlohmann::json::parse(read_file(kTinyFolder / "tokenizer.json"));
  for (const auto& [token, mark] : {std::pair{"Ġ(", "("}, {"Ġ\"", "\""}, {"'s", ""}}) {
    auto& vocabulary = json["model"]["vocab"];
    vocabulary[token] = 1000 + vocabulary.size();
    const std::string first = *mark == '\0' ? "'" : "Ġ", second = *mark == '\0' ? "s" : mark;
    auto& merges = json["model"]["merges"];
    if (merges.front().is_string()) {
      merges.push_back(concat(first, " ", second));
    } else {
      merges.push_back({first, second});
    }
  }
  const auto tokenizer = text::Tokenizer::from_json(json.dump(), "tokenizer.json");
  const auto words = [&](const std::string& line) {
    std::string all;
    text::EncodeOptions options;
    options.special_tokens = false;
    const std::vector<int32_t> ids = tokenizer.encode(line, options).ids;
    for (const WordTokens& word : split_words(tokenizer, ids, "en")) all += word.text + "|";
    return all;
  };
  EXPECT_EQ(words(" the ( \"dog\")"), " the| ( \"dog\")|");
  EXPECT_EQ(words(" the man's (dog)"), " the| man's| (dog)|");
}

TEST_F(SplitWords, AreCharactersInLanguagesWithoutSpaces) {
  for (const char* code : {"ja", "zh", "th", "lo", "my", "yue"})
    EXPECT_EQ(split("日本語。犬、", code), "日|本|語。|犬、") << code;
  EXPECT_EQ(split("日本語。犬、", "ko"), "日本語。犬、");
  EXPECT_EQ(split("日本 語", "en"), "日本| 語");
}

TEST_F(SplitWords, NeverSplitACharacter) {
  EXPECT_EQ(split(" réd é🐕 dog"), " réd| é🐕| dog");
  EXPECT_EQ(split("é🐕d", "ja"), "é|🐕|d");
  // A window may end within a character.
  std::vector<int32_t> ids = ids_of(" dog é");
  ids.pop_back();
  EXPECT_EQ(split(ids), " dog| \xEF\xBF\xBD");
}

// Bytes that are part of no character belong to the word in which they are.
TEST_F(SplitWords, GoOnAfterBytesOfNoCharacter) {
  std::vector<int32_t> ids = ids_of(" dog");
  ids.push_back(id_of_byte(0xFF));
  for (const int32_t id : ids_of(" the réd man")) ids.push_back(id);
  EXPECT_EQ(split(ids), " dog\xEF\xBF\xBD| the| réd| man");
  ids = {id_of_byte(0xA9), id_of_byte(0xC3)};  // the second byte of a character, and the first
  for (const int32_t id : ids_of(" the man")) ids.push_back(id);
  EXPECT_EQ(split(ids), "\xEF\xBF\xBD\xEF\xBF\xBD| the| man");
}

TEST(CompressionRatio, IsHighForRepeatedTexts) {
  EXPECT_EQ(text::compression_ratio(""), 0);
  // zlib.compress() of Python.
  EXPECT_DOUBLE_EQ(text::compression_ratio("a"), 1.0 / 9);
  EXPECT_DOUBLE_EQ(text::compression_ratio("The quick brown fox jumps over the lazy dog."), 44.0 / 51);
  std::string repeated;
  for (int i = 0; i < 50; ++i) repeated += " the dog";
  EXPECT_DOUBLE_EQ(text::compression_ratio(repeated), 400.0 / 21);
}

TEST(LanguageNames, AreOfCodes) {
  EXPECT_EQ(language_code("German"), "de");
  EXPECT_EQ(language_code("DE"), "de");
  EXPECT_EQ(language_code("haitian Creole"), "ht");
  EXPECT_EQ(language_code("haitian"), "ht");
  EXPECT_EQ(language_code("Mandarin"), "zh");
  EXPECT_EQ(language_code("cantonese"), "yue");
  EXPECT_EQ(language_code("Klingon"), "klingon");
  EXPECT_EQ(language_code(""), "");
  EXPECT_EQ(language_name("de"), "german");
  EXPECT_EQ(language_name("zh"), "chinese");
  EXPECT_EQ(language_name("tlh"), "tlh");
  for (const char* code : {"en", "ht", "yue", "jw", "nn", "haw", "my", "pa"})
    EXPECT_EQ(language_code(language_name(code)), code);
}

}  // namespace
}  // namespace qkv::pipelines
