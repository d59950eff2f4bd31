// Tokenizers: invalid files, parts, texts, ids and options; tokenizers that were moved from.

#include <gtest/gtest.h>

#include <climits>
#include <limits>

#include "qkv/base/files.h"
#include "qkv/text/lines.h"
#include "qkv/text/text_file.h"
#include "qkv/text/token_models/sentencepiece.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/train_sentencepiece.h"
#include "qkv/text/train_tokenizer.h"
#include "qkv/text/translation_tokenizer.h"
#include "tests/support/misuse.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::text;
using namespace qkv::testing;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInfinity = std::numeric_limits<double>::infinity();

const std::filesystem::path kData = QKV_TEST_DATA;
const std::filesystem::path kJson = kData / "text" / "golden" / "wordpiece.json",
                            kPieces = kData / "text" / "golden" / "sentencepiece_unigram.model",
                            kMarian = kData / "pipelines" / "golden" / "marian";

// Texts that no tokenizer has been made for.
std::vector<std::string> strange_texts() {
  std::string nested;
  for (int i = 0; i < 3000; ++i) nested += "e\u0301";
  return {"",      std::string(1, '\0'), std::string("a\0b", 3),     "\xFF\xFE",
          "a\xC3", "\xED\xA0\x80",       std::string(20'000, 'a'),   std::string(10'000, ' '),
          nested,  "\u200B\uFEFF\u202E", "[CLS][SEP][MASK]</s><pad>"};
}

TEST(MisusedTokenizers, Files) {
  const Scratch folder;
  const std::string longest(5000, 'x');
  for (const std::filesystem::path& path :
       {std::filesystem::path(), folder / "none", folder.path(), std::filesystem::path("/dev/null"),
        std::filesystem::path(longest), folder / longest, folder.write("tokenizer.json", "{"),
        folder.write("vocab.txt", ""), folder.write("any.bin", "\xFF\xFF")}) {
    const std::string name = path.string().substr(0, 60);
    THROWS("", Tokenizer::load(path)) << name;
    THROWS("", TranslationTokenizer::load(path)) << name;
    expect_orderly(name, [&] { LineReader{path}; });
    expect_orderly(name, [&] { count_lines(path); });
    expect_orderly(name, [&] { TextFile{path}; });
  }
  for (const char* const json : {"", "null", "[]", "{}", R"({"model": 3})", R"({"model": {"type": "BPE"}})"})
    THROWS("cat", Tokenizer::from_json(json, "cat")) << json;
  for (const std::string& bytes : {std::string(), std::string("x"), std::string(1000, '\0')}) {
    THROWS("cat", SentencePieceModel(bytes, "cat"));
    THROWS("cat",
           TranslationTokenizer::from_models(
               {.source = bytes, .target = {}, .source_lang = {}, .target_lang = {}, .source_name = "cat"}));
  }
  THROWS("", TranslationTokenizer::load(kMarian, {.source = 3, .target = 3}));
  THROWS("", TranslationTokenizer::load(kMarian, {.source = -1}));
  THROWS("", TranslationTokenizer(Tokenizer::load(kData / "text" / "golden" / "word_level.json")));
  const TranslationTokenizer good = TranslationTokenizer::load(kMarian);
  THROWS("", good.save(folder.write("file", "x")));
  THROWS("", good.save(folder / longest));
}

TEST(MisusedTokenizers, TextsAndIds) {
  const Tokenizer tokenizers[] = {Tokenizer::load(kJson),
                                  Tokenizer::load(kData / "text" / "golden" / "byte_level.json"),
                                  Tokenizer::load(kData / "text" / "golden" / "unigram.json"),
                                  Tokenizer::load(kPieces), Tokenizer::load(kMarian)};
  const std::vector<int32_t> ids{-1, 0, 5, INT_MAX, INT_MIN, 1 << 22};
  for (const Tokenizer& tokenizer : tokenizers) {
    for (const std::string& text : strange_texts()) {
      const Encoding encoding = tokenizer.encode(text), pair = tokenizer.encode(text, text);
      for (const Encoding& one : {encoding, pair}) {
        EXPECT_EQ(one.offsets.size(), one.ids.size());
        for (const ByteRange& range : one.offsets) {
          ASSERT_LE(range.begin, range.end);
          ASSERT_LE(range.end, text.size());
        }
      }
      EXPECT_FALSE(tokenizer.id_of(std::string(text) + "\xFF").has_value());
      if (text.size() > 1000) continue;
      for (const int64_t length : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2}, kHuge, kLowest}) {
        for (const auto strategy : {TruncationStrategy::longest_first, TruncationStrategy::only_first,
                                    TruncationStrategy::only_second, static_cast<TruncationStrategy>(9)}) {
          const EncodeOptions options{.truncation = Truncation{.max_length = length, .strategy = strategy}};
          expect_orderly("truncation",
                         [&] { EXPECT_LE(std::ssize(tokenizer.encode(text, options).ids), length); });
          expect_orderly("truncation",
                         [&] { EXPECT_LE(std::ssize(tokenizer.encode(text, text, options).ids), length); });
        }
      }
    }
    tokenizer.decode(ids);
    for (const int32_t id : {-1, INT_MAX, INT_MIN, 1 << 22}) {
      EXPECT_FALSE(tokenizer.token(id).has_value());
      EXPECT_FALSE(tokenizer.is_special(id));
    }
    StreamDecoder stream(tokenizer);
    for (const int32_t id : ids) stream.add(id);
    stream.finish();
  }
  const TranslationTokenizer marian = TranslationTokenizer::load(kMarian);
  for (const std::string& text : strange_texts()) {
    for (const Side side : {Side::source, Side::target})
      expect_orderly("marian", [&] { marian.decode(marian.encode(side, text), side); });
  }
  EXPECT_EQ(marian.piece(-1), "");
  EXPECT_EQ(marian.piece(INT_MAX), "");
}

TEST(MisusedTokenizers, MovedFrom) {
  Tokenizer tokenizer = Tokenizer::load(kJson);
  const Tokenizer taken = std::move(tokenizer);
  EXPECT_GT(taken.size(), 5);
  const std::vector<int32_t> ids{1};
  // NOLINTBEGIN(bugprone-use-after-move)
  THROWS("moved", tokenizer.encode("a"));
  THROWS("moved", tokenizer.encode("a", "b"));
  THROWS("moved", tokenizer.decode(ids));
  THROWS("moved", tokenizer.id_of("a"));
  THROWS("moved", tokenizer.token(1));
  THROWS("moved", tokenizer.is_special(1));
  THROWS("moved", tokenizer.special_tokens().eos);
  THROWS("moved", tokenizer.size());
  THROWS("moved", StreamDecoder(tokenizer).add(1));
  THROWS("moved", TranslationTokenizer{tokenizer});
  TranslationTokenizer marian = TranslationTokenizer::load(kMarian);
  const TranslationTokenizer held = std::move(marian);
  THROWS("moved", marian.encode_source("a"));
  THROWS("moved", marian.decode(ids));
  THROWS("moved", marian.special_ids());
  THROWS("", marian.fingerprint());
  THROWS("", marian.save("/nowhere"));
  // NOLINTEND(bugprone-use-after-move)
}

TEST(MisusedTokenizers, Parts) {
  const auto with = [](const auto& change) {
    return [change] {
      TokenizerParts parts = parse_tokenizer_json(read_file(kJson), "cat");
      change(parts);
      Tokenizer{std::move(parts)};
    };
  };
  THROWS("model", with([](TokenizerParts& parts) { parts.model = nullptr; })());
  for (const int32_t id : {-1, INT_MAX, INT_MIN}) {
    THROWS("added",
           with([&](TokenizerParts& parts) { parts.added_tokens.push_back({.content = "x", .id = id}); })());
    THROWS("symbols", with([&](TokenizerParts& parts) { parts.symbols = {id}; })());
    THROWS("post-processing", with([&](TokenizerParts& parts) {
             parts.post_processing.single.push_back({-1, {id}, 0});
           })());
  }
  for (const int text : {-2, 1, 2, INT_MAX}) {
    THROWS("text", with([&](TokenizerParts& parts) {
             parts.post_processing.single.push_back({text, {}, 0});
           })());
  }
  THROWS("text", with([](TokenizerParts& parts) { parts.post_processing.pair = {{2, {}, 0}}; })());
  const auto pieces = std::make_shared<SentencePieceModel>(read_file(kPieces), "pieces");
  for (const int32_t id : {-1, pieces->size(), INT_MAX, INT_MIN}) {
    THROWS("pieces", pieces->piece(id));
    THROWS("pieces", pieces->is_control(id));
    THROWS("pieces", pieces->in_text(id));
    Vocabulary vocabulary;
    vocabulary.add("a", 3, "cat");
    THROWS("vocabulary", vocabulary.token(id));
    if (id != pieces->size()) {
      THROWS("cat", vocabulary.add("b", id, "cat"));
    }
  }
  THROWS("SentencePiece", sentencepiece_model(nullptr));
  THROWS("SentencePiece", sentencepiece_decoder(nullptr, true));
  THROWS("SentencePiece", numbered_pieces_model(nullptr, std::make_shared<Vocabulary>(), {}, "cat"));
  THROWS("cat", numbered_pieces_model(pieces, nullptr, {}, "cat"));
  THROWS("cat", numbered_pieces_model(pieces, std::make_shared<Vocabulary>(), {}, "cat"));
}

TEST(MisusedTokenizers, Training) {
  const Scratch folder;
  const std::filesystem::path text = folder.write("text", "the cat sat on the mat\nthe dog dug\n");
  const auto train = [&](const TrainOptions& options) { return [options] { train_sentencepiece(options); }; };
  THROWS("", train({})());
  THROWS("", train({.inputs = {folder / "none"}})());
  THROWS("", train({.inputs = {folder.path()}})());
  THROWS("", train({.inputs = {folder.write("empty", "")}})());
  THROWS("", train({.inputs = {folder.write("bad", "\xFF\n")}})());
  for (const int64_t size : {int64_t{0}, int64_t{-1}, kHuge, kLowest}) {
    THROWS("vocab", train({.inputs = {text}, .vocab_size = size})());
    expect_orderly(
        "sentences",
        train({.inputs = {text}, .vocab_size = 20, .smaller_if_needed = true, .max_sentences = size}));
  }
  for (const double share : {0.0, -1.0, 1.5, kNan, kInfinity})
    THROWS("coverage", train({.inputs = {text}, .vocab_size = 20, .character_coverage = share})());
}

}  // namespace
