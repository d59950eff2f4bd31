// Trained tokenizers: tiny texts checked by hand, and the vocabularies of PyPI's trainers
// (tests/golden/trained_tokenizers.py).

#include "qkv/text/train_tokenizer.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/parallel.h"
#include "qkv/base/stop.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/train_sentencepiece.h"
#include "tests/support/scratch.h"

namespace qkv::text {
namespace {

using nlohmann::json;
using qkv::testing::message_of;
using qkv::testing::Scratch;
using Ids = std::vector<int32_t>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string train(const std::string& text, TokenizerTraining training) {
  const Scratch scratch;
  training.inputs = {scratch.write("text", text)};
  return train_tokenizer(training);
}

Tokenizer open(const std::string& file) { return Tokenizer::from_json(file, "tokenizer.json"); }

Ids ids_of(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, {.special_tokens = false, .truncation = {}}).ids;
}

Pairs merges_of(const std::string& file) { return json::parse(file)["model"]["merges"].get<Pairs>(); }

TEST(TrainTokenizer, BytePairsByHand) {
  // Words: "ab" once, " ab" twice, " abc" once. a b: 4 times, then Ġ ab: 3 times; b c: once.
  const std::string file = train("ab ab ab abc\n", {.kind = TokenizerKind::bpe, .vocab_size = 300});
  EXPECT_EQ(merges_of(file), (Pairs{{"a", "b"}, {"Ġ", "ab"}}));
  const Tokenizer tokenizer = open(file);
  EXPECT_EQ(tokenizer.size(), 259);
  EXPECT_EQ(tokenizer.id_of("<|endoftext|>"), 0);
  EXPECT_EQ(tokenizer.id_of("!"), 1);
  EXPECT_EQ(tokenizer.id_of("Ń"), 256);  // the last letter, of byte 0xAD
  const int32_t c = 1 + 'c' - '!', a = 1 + 'a' - '!';
  EXPECT_EQ(ids_of(tokenizer, " abcab a"), (Ids{258, c, 257, *tokenizer.id_of("Ġ"), a}));
  for (const std::string text : {"ab\n\n äöü\t\x01 日本 👍🏽  x", "<|endoftext|>", ""}) {
    EXPECT_EQ(tokenizer.decode(ids_of(tokenizer, text), {.skip_special_tokens = false}), text);
  }
  EXPECT_EQ(ids_of(tokenizer, "<|endoftext|>"), Ids{0});
}

TEST(TrainTokenizer, TiesGoToTheLowestIdsAndOverlapsCount) {
  const auto merges = [](const std::string& text, int64_t size, int64_t frequency = 2) {
    const std::string file =
        train(text, {.kind = TokenizerKind::bpe, .vocab_size = size, .min_frequency = frequency});
    return merges_of(file);
  };
  EXPECT_EQ(merges("zw\nxy\nzw\nxy\nx\n", 300), (Pairs{{"x", "y"}, {"z", "w"}}));
  EXPECT_EQ(merges("zw\nxy\nzw\nxy\nzw\n", 300), (Pairs{{"z", "w"}, {"x", "y"}}));
  EXPECT_EQ(merges("zw\nxy\nzw\nxy\nx\n", 258), (Pairs{{"x", "y"}}));
  EXPECT_EQ(merges("zw\nxy\nzw\nxy\nzw\n", 300, 3), (Pairs{{"z", "w"}}));
  EXPECT_EQ(merges("zw\nxy\n", 300), Pairs{});
  // a a occurs twice in aaa, as often as b c in four words. Once it is merged, aa a occurs once.
  EXPECT_EQ(merges("bc\nbc\nbc\nbc\naaa\naaa\n", 300), (Pairs{{"a", "a"}, {"b", "c"}, {"aa", "a"}}));
  EXPECT_EQ(merges("bc\nbc\nbc\nbc\naaaa\n", 300), (Pairs{{"b", "c"}, {"a", "a"}}));
}

TEST(TrainTokenizer, WordPiecesByHand) {
  // hug: 2, hugs: 1, pug: 1. ##u ##g: 4 times, then h ##ug: 3 times.
  const std::string file = train("Hug hug\r\nhügs  pug\n", {.kind = TokenizerKind::wordpiece});
  const Tokenizer tokenizer = open(file);
  const std::vector<std::string> expected{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "g",    "h",  "p",
                                          "s",     "u",     "##u",   "##g",   "##s",    "##ug", "hug"};
  ASSERT_EQ(tokenizer.size(), std::ssize(expected));
  for (int32_t id = 0; id < 15; ++id) EXPECT_EQ(tokenizer.token(id), expected[static_cast<size_t>(id)]);
  EXPECT_EQ(tokenizer.encode("hugs, PUG [MASK]").ids, (Ids{2, 14, 12, 1, 7, 13, 4, 3}));
  EXPECT_EQ(tokenizer.encode("hug", "pug").type_ids, (std::vector<int32_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("hugs pug").ids), "hugs pug");

  const Tokenizer cased = open(train("Hug hug\nhügs  pug\n", {.lowercase = false}));
  EXPECT_TRUE(cased.id_of("H") && cased.id_of("##ü"));
  EXPECT_EQ(ids_of(cased, "hUg"), Ids{1});
}

TEST(TrainTokenizer, LimitedAlphabet) {
  const std::string text = "aab aab ba zb zb q\n";  // b: 5, a: 5, z: 2, q: 1
  const Tokenizer tokenizer = open(train(text, {.limit_alphabet = 2}));
  EXPECT_FALSE(tokenizer.id_of("z") || tokenizer.id_of("q"));
  EXPECT_EQ(tokenizer.id_of("a"), 5);
  EXPECT_EQ(tokenizer.id_of("b"), 6);
  EXPECT_EQ(ids_of(tokenizer, "zb"), Ids{1});
  EXPECT_TRUE(open(train(text, {})).id_of("z"));
}

TEST(TrainTokenizer, CharactersByHand) {
  const std::string text =
      "\xEF\xBB\xBF"
      "ba\r\né 👍\n";
  const Tokenizer tokenizer = open(train(text, {.kind = TokenizerKind::chars}));
  const std::vector<std::string> expected{"<unk>", "\n", "\r", " ", "a", "b", "é", "👍"};
  ASSERT_EQ(tokenizer.size(), std::ssize(expected));
  for (int32_t id = 0; id < 8; ++id) EXPECT_EQ(tokenizer.token(id), expected[static_cast<size_t>(id)]);
  EXPECT_EQ(ids_of(tokenizer, "ab\néz"), (Ids{4, 5, 1, 6, 0}));
  const std::string back = "  a\r\n\n👍é  b\n";
  EXPECT_EQ(tokenizer.decode(ids_of(tokenizer, back)), back);
}

// Some hundred words, of which the k-th is drawn with probability proportional to 1 / (k + 1).
std::string random_text(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  const std::vector<std::string> syllables{"ka", "lo", "mi", "ner", "us", "tä", "ing", "pre", "o", "st"};
  std::vector<std::string> words(400);
  for (std::string& word : words) {
    for (size_t left = 1 + below(4); left > 0; --left) word += syllables[below(syllables.size())];
  }
  std::string text;
  while (text.size() < bytes) {
    const size_t rank = below(1 + below(1 + below(words.size())));
    text += words[rank] + (below(9) == 0 ? ".\n" : " ");
  }
  return text;
}

TEST(TrainTokenizer, UnigramHasTheIdsOfSentencePiece) {
  const Scratch scratch;
  const auto corpus = scratch.write("text", random_text(40'000, 1));
  const TokenizerTraining training{.inputs = {corpus}, .kind = TokenizerKind::unigram, .vocab_size = 150};
  const std::string file = train_tokenizer(training);
  const Tokenizer own = open(file);
  scratch.write("spm/tokenizer.model", train_sentencepiece({.inputs = {corpus}, .vocab_size = 150}));
  const Tokenizer peer = Tokenizer::load(scratch / "spm" / "tokenizer.model");
  EXPECT_EQ(own.size(), 150);
  EXPECT_EQ(own.size(), peer.size() + 2);
  EXPECT_EQ(own.id_of("</s>"), 148);
  EXPECT_TRUE(own.is_special(149));
  int64_t compared = 0;
  const std::string text =
      random_text(20'000, 2) + "  Two   spaces\t \n\n ﬁne ＡＢ Tä.x  ünknown 日本\n \nA\u0308o\u00a0mi";
  size_t begin = 0;
  for (size_t end = 0; end != text.npos; begin = end + 1) {
    end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    ++compared;
    EXPECT_EQ(ids_of(own, line), ids_of(peer, line)) << "'" << line << "'";
  }
  EXPECT_GT(compared, 100);
  EXPECT_EQ(ids_of(own, "kalo\n mi"), ids_of(peer, "kalo\n mi"));
  EXPECT_EQ(own.decode(ids_of(own, " kalo   mi")), "kalo mi");
}

TEST(TrainTokenizer, SameBytesForAnyNumberOfThreadsAndFiles) {
  const Scratch scratch;
  const std::string text = random_text(3'000'000, 3);
  const auto whole = scratch.write("whole", text);
  const size_t cut = text.find('\n', text.size() / 3) + 1;
  const auto first = scratch.write("first", text.substr(0, cut));
  const auto second = scratch / "second.gz";
  const gzFile packed = gzopen(second.c_str(), "wb");
  gzwrite(packed, text.data() + cut, static_cast<unsigned>(text.size() - cut));
  gzclose(packed);
  const int before = threads();
  for (const TokenizerKind kind : {TokenizerKind::wordpiece, TokenizerKind::bpe, TokenizerKind::chars}) {
    set_threads(1);
    const std::string one = train_tokenizer({.inputs = {whole}, .kind = kind, .vocab_size = 350});
    set_threads(4);
    EXPECT_EQ(train_tokenizer({.inputs = {whole}, .kind = kind, .vocab_size = 350}), one);
    EXPECT_EQ(train_tokenizer({.inputs = {first, second}, .kind = kind, .vocab_size = 350}), one);
    EXPECT_EQ(open(one).size(), kind == TokenizerKind::chars ? 19 : 350);
  }
  set_threads(before);
}

TEST(TrainTokenizer, ReportsProgress) {
  const Scratch scratch;
  std::vector<TokenizerProgress> seen;
  train_tokenizer({.inputs = {scratch.write("text", "ab ab ab\nabc\n\xff\n")},
                   .kind = TokenizerKind::bpe,
                   .skip_bad_utf8 = true},
                  nullptr, [&](const TokenizerProgress& progress) { seen.push_back(progress); });
  ASSERT_GE(seen.size(), 3u);
  EXPECT_EQ(seen.front().stage, TokenizerProgress::Stage::reading);
  const TokenizerProgress& last = seen.back();
  EXPECT_EQ(last.stage, TokenizerProgress::Stage::done);
  EXPECT_EQ(last.lines, 2);
  EXPECT_EQ(last.skipped_lines, 1);
  EXPECT_EQ(last.words, 6);  // ab, " ab" twice, abc, two line ends
  EXPECT_EQ(last.distinct_words, 4);
  EXPECT_EQ(last.merges, 2);
  EXPECT_EQ(last.tokens, 259);
}

TEST(TrainTokenizer, Stops) {
  const Scratch scratch;
  const auto corpus = scratch.write("text", random_text(200'000, 4));
  std::atomic<bool> stop = false;
  for (const TokenizerKind kind : {TokenizerKind::wordpiece, TokenizerKind::bpe, TokenizerKind::chars}) {
    stop = true;
    EXPECT_THROW(train_tokenizer({.inputs = {corpus}, .kind = kind}, &stop), Stopped);
    stop = false;
    if (kind == TokenizerKind::chars) continue;
    const auto at_merges = [&](const TokenizerProgress& progress) {
      stop = progress.stage == TokenizerProgress::Stage::merging;
    };
    EXPECT_THROW(train_tokenizer({.inputs = {corpus}, .kind = kind}, &stop, at_merges), Stopped);
    EXPECT_TRUE(stop);
  }
}

TEST(TrainTokenizer, Errors) {
  const Scratch scratch;
  const auto good = scratch.write("good", "abc abd\n"), empty = scratch.write("empty", "");
  const auto bad = scratch.write("bad",
                                 "fine\nb\xff"
                                 "d\n");
  const auto blank = scratch.write("blank", " \n\t\n");
  const auto usage = [&](const TokenizerTraining& training) {
    return message_of<UsageError>([&] { train_tokenizer(training); });
  };
  const auto data = [&](const TokenizerTraining& training) {
    return message_of<DataError>([&] { train_tokenizer(training); });
  };
  testing::expect_parts(usage({}), {"at least one text file"});
  testing::expect_parts(usage({.inputs = {good}, .vocab_size = 0}), {"vocab_size", "found 0"});
  testing::expect_parts(usage({.inputs = {good}, .vocab_size = 2'000'000}), {"vocab_size", "1000000"});
  testing::expect_parts(usage({.inputs = {good}, .min_frequency = -1}), {"min_frequency", "-1"});
  testing::expect_parts(usage({.inputs = {good}, .limit_alphabet = -1}), {"limit_alphabet"});
  testing::expect_parts(usage({.inputs = {good}, .vocab_size = 11}),
                        {"vocab_size", "at least 12", "found 11"});
  EXPECT_EQ(open(train_tokenizer({.inputs = {good}, .vocab_size = 12})).size(), 12);
  testing::expect_parts(usage({.inputs = {good}, .kind = TokenizerKind::bpe, .vocab_size = 256}),
                        {"at least 257"});
  testing::expect_parts(usage({.inputs = {"-"}, .kind = TokenizerKind::unigram}), {"stdin"});
  for (const auto kind :
       {TokenizerKind::wordpiece, TokenizerKind::bpe, TokenizerKind::unigram, TokenizerKind::chars}) {
    testing::expect_parts(data({.inputs = {empty}, .kind = kind}), {empty.string(), "found none"});
    testing::expect_parts(data({.inputs = {good, bad}, .kind = kind}),
                          {bad.string(), "line 2, byte 2", "0xFF"});
    EXPECT_THROW(train_tokenizer({.inputs = {scratch / "missing"}, .kind = kind}), IoError);
  }
  testing::expect_parts(data({.inputs = {blank}}), {"found none"});
  EXPECT_EQ(train_tokenizer({.inputs = {bad}, .skip_bad_utf8 = true}),
            train_tokenizer({.inputs = {scratch.write("first", "fine\n")}}));
}

TEST(TrainTokenizer, ConfigNamesTheSpecialTokens) {
  const Scratch scratch;
  for (const auto kind :
       {TokenizerKind::wordpiece, TokenizerKind::bpe, TokenizerKind::unigram, TokenizerKind::chars}) {
    const TokenizerTraining training{
        .inputs = {scratch.write("text", random_text(20'000, 5))}, .kind = kind, .vocab_size = 300};
    scratch.write("out/tokenizer.json", train_tokenizer(training));
    scratch.write("out/tokenizer_config.json", trained_tokenizer_config(training));
    const Tokenizer tokenizer = Tokenizer::load(scratch / "out");
    const SpecialTokens& special = tokenizer.special_tokens();
    switch (kind) {
      case TokenizerKind::wordpiece:
        EXPECT_EQ(special.pad, 0);
        EXPECT_EQ(special.unk, 1);
        EXPECT_EQ(special.cls, 2);
        EXPECT_EQ(special.sep, 3);
        EXPECT_EQ(special.mask, 4);
        break;
      case TokenizerKind::bpe:
        EXPECT_EQ(special.eos, 0);
        EXPECT_EQ(special.bos, 0);
        break;
      case TokenizerKind::unigram:
        EXPECT_EQ(special.unk, 0);
        EXPECT_EQ(special.eos, tokenizer.size() - 2);
        EXPECT_EQ(special.pad, tokenizer.size() - 1);
        break;
      case TokenizerKind::chars:
        EXPECT_EQ(special.unk, 0);
        EXPECT_FALSE(special.eos);
        break;
    }
    EXPECT_TRUE(tokenizer.is_special(0));
  }
}

class TrainedByPyPI : public ::testing::Test {
 protected:
  const std::filesystem::path folder_ = std::filesystem::path(QKV_TEST_DATA) / "text/golden";
  const json golden_ = json::parse(read_file(folder_ / "trained_tokenizers.json"));

  json model_of(TokenizerTraining training) const {
    training.inputs = {folder_ / "trained_tokenizers.txt"};
    return json::parse(train_tokenizer(training))["model"];
  }
};

TEST_F(TrainedByPyPI, BytePairsAreTheSame) {
  for (const json& expected : golden_["bpe"]) {
    const json model = model_of({.kind = TokenizerKind::bpe,
                                 .vocab_size = expected["vocab_size"],
                                 .min_frequency = expected["min_frequency"]});
    EXPECT_EQ(model["vocab"], expected["vocab"]);
    EXPECT_EQ(model["merges"], expected["merges"]);
    EXPECT_GT(model["merges"].size(), 100u);
  }
}

TEST_F(TrainedByPyPI, WordPiecesAreTheSame) {
  for (const json& expected : golden_["wordpiece"]) {
    const json model = model_of({.kind = TokenizerKind::wordpiece,
                                 .vocab_size = expected["vocab_size"],
                                 .min_frequency = expected["min_frequency"],
                                 .lowercase = expected["lowercase"]});
    std::set<std::string> pieces;
    for (const auto& [piece, id] : model["vocab"].items()) pieces.insert(piece);
    EXPECT_EQ(pieces, expected["pieces"].get<std::set<std::string>>());
  }
}

}  // namespace
}  // namespace qkv::text
