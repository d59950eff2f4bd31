// A small tokenizer.json must not expand a short text until memory is full.

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/text/steps/normalizers.h"
#include "qkv/text/tokenizer.h"
#include "tests/support/scratch.h"

namespace qkv::text {
namespace {

using nlohmann::json;
using qkv::testing::message_of;

// tests/text/golden/word_level.json with another step.
Tokenizer with(const std::string& step, const json& value) {
  json file =
      json::parse(read_file(std::filesystem::path(QKV_TEST_DATA) / "text/golden" / "word_level.json"));
  file[step] = value;
  return Tokenizer::from_json(file.dump(), "growth.json");
}

json repeated(const char* list, const json& step, int times) {
  json steps = json::array();
  for (int i = 0; i < times; ++i) steps.push_back(step);
  return {{"type", "Sequence"}, {list, steps}};
}

const json kSixteenfold = {
    {"type", "Replace"}, {"pattern", {{"String", "e"}}}, {"content", std::string(16, 'e')}};

void expect_refused(const std::function<void()>& action) {
  const std::string message = message_of<DataError>(action);
  EXPECT_NE(message.find("expected steps that make at most"), std::string::npos) << message;
}

TEST(Growth, OfNormalizersIsBounded) {
  const Tokenizer twice = with("normalizer", repeated("normalizers", kSixteenfold, 2));
  EXPECT_EQ(twice.encode("the").offsets.back().end, 3u) << "of 258 bytes";
  const Tokenizer bomb = with("normalizer", repeated("normalizers", kSixteenfold, 12));  // 2^48 bytes of one
  expect_refused([&] { bomb.encode("the"); });
  const Tokenizer nested =
      with("normalizer", repeated("normalizers", repeated("normalizers", kSixteenfold, 4), 4));
  expect_refused([&] { nested.encode("the"); });
  EXPECT_EQ(bomb.encode("a").ids, std::vector{*bomb.id_of("a")});
  const Tokenizer long_content =
      with("normalizer",
           {{"type", "Replace"}, {"pattern", {{"String", "e"}}}, {"content", std::string(5000, 'x')}});
  expect_refused([&] { long_content.encode("the"); });
}

TEST(Growth, OfPreTokenizersIsBounded) {
  const json spelled = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Tokenizer bomb =
      with("pre_tokenizer", repeated("pretokenizers", spelled, 40));  // 2^40 letters of one
  expect_refused([&] { bomb.encode("é"); });
  EXPECT_EQ(bomb.encode("the").ids, std::vector{*bomb.id_of("the")});
}

TEST(Growth, OfDecodersIsBounded) {
  const auto decoded = [](const json& decoder) {
    const Tokenizer tokenizer = with("decoder", decoder);
    return tokenizer.decode(std::vector<int32_t>{*tokenizer.id_of("the")});
  };
  EXPECT_EQ(decoded(repeated("decoders", kSixteenfold, 1)), "th" + std::string(16, 'e'));
  expect_refused([&] { decoded(repeated("decoders", kSixteenfold, 12)); });
  expect_refused([&] { decoded(repeated("decoders", repeated("decoders", kSixteenfold, 4), 4)); });
}

TEST(Growth, OfTemplatesIsBounded) {
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto post = [&](int times) {
    json parts = json::array();
    for (int i = 0; i < times; ++i) parts.push_back(text);
    return json{{"type", "TemplateProcessing"},
                {"single", parts},
                {"pair", parts},
                {"special_tokens", json::object()}};
  };
  EXPECT_EQ(with("post_processor", post(2)).encode("the").ids.size(), 2u);
  const std::string message = message_of<DataError>([&] { with("post_processor", post(65)); });
  EXPECT_NE(message.find("post_processor.single: expected at most 64 parts"), std::string::npos) << message;
}

// Texts of the characters with the longest decompositions remain valid.
TEST(Growth, OfRealStepsIsNotBounded) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\xEF\xB7\xBA";  // U+FDFA: 18 characters, 33 bytes
  NormalizedString normalized(text, 0);
  unicode_normalizer(UnicodeForm::nfkc)->apply(normalized);
  EXPECT_EQ(normalized.text().size(), 3300u);
}

// Many marks on one character are sorted by class, those of one class in the order of the text.
TEST(Normalizers, ManyMarksAreInCanonicalOrder) {
  for (const int pairs : {3, 40}) {
    std::string text = "a", below, above;
    for (int i = 0; i < pairs; ++i) {
      const char* const first = i % 2 == 0 ? "\xCC\x81" : "\xCC\x80";  // U+0301, U+0300: class 230
      text += first;
      above += first;
      text += "\xCC\xA3";  // U+0323: class 220
      below += "\xCC\xA3";
    }
    NormalizedString normalized(text, 0);
    unicode_normalizer(UnicodeForm::nfd)->apply(normalized);
    EXPECT_EQ(normalized.text(), "a" + below + above) << pairs;
  }
}

}  // namespace
}  // namespace qkv::text
