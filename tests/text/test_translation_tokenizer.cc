#include "qkv/text/translation_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/philox.h"
#include "qkv/base/stop.h"
#include "qkv/text/lines.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/train_sentencepiece.h"
#include "tests/support/scratch.h"

namespace qkv::text {
namespace {

using ::qkv::testing::message_of;
using ::qkv::testing::Scratch;

const char* const kEnglish[] = {"the",      "cat",    "house",   "small", "white",   "dogs",
                                "play",     "under",  "green",   "trees", "reading", "sleeping",
                                "children", "walked", "quickly", "over",  "bridge"};
const char* const kGerman[] = {"die",     "Katze",  "Häuser",  "klein",  "weiß",   "Hunde",
                               "spielen", "unter",  "grünen",  "Bäumen", "lesend", "schlafend",
                               "Kinder",  "gingen", "schnell", "über",   "Brücke"};

template <size_t n>
std::string corpus(const char* const (&words)[n], uint64_t seed) {
  RandomStream random(seed);
  std::string text;
  for (int line = 0; line < 300; ++line) {
    const uint64_t length = 3 + random.below(6);
    for (uint64_t i = 0; i < length; ++i) {
      text += std::string(i ? " " : "") + words[random.below(n)];
      if (random.below(3) == 0)
        text += words[random.below(n)];  // compounds, so that there are subwords to learn
    }
    text += random.below(2) ? ".\n" : "!\n";
  }
  return text;
}

struct Corpora {
  Scratch folder;
  std::filesystem::path english = folder.write("c.en", corpus(kEnglish, 1));
  std::filesystem::path german = folder.write("c.de", corpus(kGerman, 2));

  TranslationTokenizer joint(SubwordKind kind = SubwordKind::unigram) const {
    return TranslationTokenizer::from_models(
        {.source = train_sentencepiece(
             {.inputs = {english, german}, .vocab_size = 120, .kind = kind, .character_coverage = 1}),
         .target = {},
         .source_lang = "en",
         .target_lang = "de"});
  }
  TranslationTokenizer separate() const {
    return TranslationTokenizer::from_models(
        {.source = train_sentencepiece({.inputs = {english}, .vocab_size = 70, .character_coverage = 1}),
         .target = train_sentencepiece({.inputs = {german}, .vocab_size = 90, .character_coverage = 1}),
         .source_lang = "en",
         .target_lang = "de"});
  }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST(TranslationTokenizer, JointVocabularyIsInMariansOrder) {
  for (const SubwordKind kind : {SubwordKind::unigram, SubwordKind::bpe}) {
    const TranslationTokenizer tokenizer = Corpora().joint(kind);
    EXPECT_EQ(tokenizer.size(), 120);
    EXPECT_EQ(tokenizer.size(Side::source), 120);
    EXPECT_FALSE(tokenizer.separate_vocabularies());
    EXPECT_EQ(tokenizer.eos_id(), 0);
    EXPECT_EQ(tokenizer.unk_id(), 1);
    EXPECT_EQ(tokenizer.pad_id(), 119);
    EXPECT_EQ(tokenizer.piece(0), "</s>");
    EXPECT_EQ(tokenizer.piece(119), "<pad>");
    std::set<std::string> pieces;
    for (int32_t i = 0; i < 120; ++i) pieces.emplace(tokenizer.piece(i));
    EXPECT_EQ(pieces.size(), 120u);
  }
}

TEST(TranslationTokenizer, EveryLineSurvivesTheRoundTrip) {
  const Corpora corpora;
  for (const TranslationTokenizer& tokenizer :
       {corpora.joint(), corpora.joint(SubwordKind::bpe), corpora.separate()}) {
    for (const Side side : {Side::source, Side::target}) {
      LineReader reader(side == Side::source ? corpora.english : corpora.german);
      std::string line;
      int64_t tokens = 0;
      while (reader.next(line)) {
        std::vector<int32_t> ids = tokenizer.encode(side, line);
        tokens += static_cast<int64_t>(ids.size());
        for (const int32_t id : ids) {
          ASSERT_GT(id, 1) << line;
          ASSERT_NE(id, tokenizer.pad_id()) << line;
        }
        ids.insert(ids.begin(), tokenizer.pad_id(side));
        ids.push_back(tokenizer.eos_id(side));
        ASSERT_EQ(tokenizer.decode(ids, side), line);
      }
      EXPECT_GT(tokens, reader.lines() * 3);
      EXPECT_LT(tokens, reader.lines() * 30);
    }
  }
}

TEST(TranslationTokenizer, UnknownTextIsUnkAndNeverASpecialToken) {
  const TranslationTokenizer tokenizer = Corpora().joint();
  const auto count = [](const std::vector<int32_t>& ids, int32_t id) {
    return std::count(ids.begin(), ids.end(), id);
  };
  EXPECT_GT(count(tokenizer.encode_source("the 東 cat"), tokenizer.unk_id()), 0);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode_source("the 東 cat")),
            "the  cat");  // <unk> leaves its space
  for (const char* text : {"</s>", "<pad>", "the </s> cat", "<unk>"}) {
    const auto ids = tokenizer.encode_source(text);
    EXPECT_EQ(count(ids, tokenizer.eos_id()), 0) << text;
    EXPECT_EQ(count(ids, tokenizer.pad_id()), 0) << text;
    EXPECT_GT(count(ids, tokenizer.unk_id()), 0) << text;
  }
  EXPECT_TRUE(tokenizer.encode_source("").empty());
  EXPECT_EQ(tokenizer.decode({}), "");
  EXPECT_EQ(tokenizer.piece(120), "");
  EXPECT_EQ(tokenizer.piece(-1), "");
  std::vector<int32_t> ids = tokenizer.encode_source("the cat");
  ids.insert(ids.begin() + 1, {-1, 120});
  EXPECT_EQ(tokenizer.decode(ids), "the cat");
}

TEST(TranslationTokenizer, ByteFallbackEncodesUnknownText) {
  const Corpora corpora;
  const TranslationTokenizer tokenizer =
      TranslationTokenizer::from_models({.source = train_sentencepiece({.inputs = {corpora.english},
                                                                        .vocab_size = 340,
                                                                        .kind = SubwordKind::bpe,
                                                                        .character_coverage = 1,
                                                                        .byte_fallback = true}),
                                         .target = {},
                                         .source_lang = {},
                                         .target_lang = {}});
  const auto ids = tokenizer.encode_source("the 東 cat");
  for (const int32_t id : ids) EXPECT_NE(id, tokenizer.unk_id());
  EXPECT_EQ(tokenizer.decode(ids), "the 東 cat");
}

// The trainer's own character map, 240 KB of each model, with random bytes changed.
TEST(TranslationTokenizer, ChangedByteLoadsOrIsRejected) {
  const Corpora corpora;
  const std::string model =
      train_sentencepiece({.inputs = {corpora.english}, .vocab_size = 70, .character_coverage = 1});
  int refused = 0, loaded = 0;
  for (size_t at = 1; at < model.size(); at += model.size() / 150) {
    std::string damaged = model;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x77);
    try {
      const auto tokenizer = TranslationTokenizer::from_models(
          {.source = damaged, .target = {}, .source_lang = {}, .target_lang = {}});
      const std::vector<int32_t> ids = tokenizer.encode_source("the ﬁne Ⅻ cats, ① ½ \u212B e\u0301 ｶﾞ");
      EXPECT_FALSE(ids.empty());
      tokenizer.decode(ids);
      ++loaded;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(loaded, 10);
}

TEST(TranslationTokenizer, RoundTrips) {
  const Corpora corpora;
  for (const TranslationTokenizer& tokenizer : {corpora.joint(), corpora.separate()}) {
    const auto folder = corpora.folder / "model";
    tokenizer.save(folder, 64);
    EXPECT_TRUE(contains(read_file(folder / "tokenizer_config.json"), "\"model_max_length\": 64"));
    const TranslationTokenizer loaded = TranslationTokenizer::load(
        folder, {.source = tokenizer.size(Side::source), .target = tokenizer.size()});
    EXPECT_EQ(loaded.fingerprint(), tokenizer.fingerprint());
    EXPECT_EQ(loaded.separate_vocabularies(), tokenizer.separate_vocabularies());
    EXPECT_EQ(loaded.source_lang(), "en");
    EXPECT_EQ(loaded.target_lang(), "de");
    for (const Side side : {Side::source, Side::target}) {
      const char* text = side == Side::source ? "the small dogs walked." : "die Häuser unter grünen Bäumen!";
      EXPECT_EQ(loaded.encode(side, text), tokenizer.encode(side, text));
      EXPECT_EQ(loaded.decode(loaded.encode(side, text), side), text);
      EXPECT_EQ(loaded.pad_id(side), tokenizer.pad_id(side));
    }
  }
  EXPECT_NE(corpora.joint().fingerprint(), corpora.separate().fingerprint());
}

TEST(TranslationTokenizer, SeparateVocabulariesShareTheSpecialIds) {
  const TranslationTokenizer tokenizer = Corpora().separate();
  EXPECT_EQ(tokenizer.size(Side::source), 70);
  EXPECT_EQ(tokenizer.size(Side::target), 90);
  for (const Side side : {Side::source, Side::target}) {
    EXPECT_EQ(tokenizer.eos_id(side), 0);
    EXPECT_EQ(tokenizer.unk_id(side), 1);
    EXPECT_EQ(tokenizer.pad_id(side), 2);
  }
}

TEST(TranslationTokenizer, OpensAsATokenizerOfTheSource) {
  const Corpora corpora;
  for (const TranslationTokenizer& marian :
       {corpora.joint(), corpora.separate(), corpora.joint(SubwordKind::bpe)}) {
    const Scratch folder;
    marian.save(folder.path());
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    EXPECT_EQ(tokenizer.special_tokens().eos, marian.eos_id(Side::source));
    EXPECT_EQ(tokenizer.special_tokens().pad, marian.pad_id(Side::source));
    for (const std::string text :
         {"the small cat.", "", "white  dogs!", "</s> <pad> 中 Häuser", "childrenwalked"}) {
      std::vector<int32_t> expected = marian.encode_source(text);
      const Encoding found = tokenizer.encode(text);
      EXPECT_EQ(tokenizer.decode(expected), marian.decode(expected, Side::source));
      expected.push_back(marian.eos_id(Side::source));
      EXPECT_EQ(found.ids, expected) << text;
      if (found.size() > 1) {
        EXPECT_EQ(found.offsets[found.size() - 2].end, text.size()) << text;
      }
    }
  }
}

TEST(TranslationTokenizer, LanguageCodeIsOneToken) {
  const Corpora corpora;
  const auto folder = corpora.folder / "model";
  corpora.joint().save(folder);
  std::string vocabulary = read_file(folder / "vocab.json");
  vocabulary.replace(vocabulary.rfind("\n}"), 2, ",\n  \">>deu<<\": 120\n}");
  corpora.folder.write("model/vocab.json", vocabulary);
  const TranslationTokenizer tokenizer = TranslationTokenizer::load(folder);
  auto expected = tokenizer.encode_source("the cat");
  expected.insert(expected.begin(), 120);
  EXPECT_EQ(tokenizer.encode_source(">>deu<< the cat"), expected);
  expected.front() = tokenizer.unk_id();  // as in transformers
  EXPECT_EQ(tokenizer.encode_source(">>fra<< the cat"), expected);
}

TEST(TranslationTokenizer, NamesBrokenFolders) {
  const Corpora corpora;
  const TranslationTokenizer tokenizer = corpora.joint();
  const auto folder = corpora.folder / "model";
  const auto load = [&] { return TranslationTokenizer::load(folder); };
  const auto broken = [&](const std::string& name, const std::string& content) {
    tokenizer.save(folder);
    corpora.folder.write("model/" + name, content);
    std::string message = message_of<DataError>(load);
    EXPECT_TRUE(contains(message, name)) << message;
    return message;
  };
  tokenizer.save(folder);
  const std::string vocabulary = read_file(folder / "vocab.json"), model = read_file(folder / "source.spm");
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = vocabulary;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_TRUE(contains(broken("vocab.json", vocabulary.substr(0, vocabulary.size() / 2)), "expected JSON"));
  EXPECT_TRUE(contains(broken("vocab.json", "[1, 2]"), "vocab.json: expected an object, found [1,2]"));
  EXPECT_TRUE(contains(broken("vocab.json", "{}"), "</s>"));
  EXPECT_TRUE(contains(broken("vocab.json", replaced("\"<unk>\": 1", "\"<unk>\": 0")),
                       "an id of its own for every token, found 0"));
  EXPECT_TRUE(contains(broken("vocab.json", replaced("\"<unk>\": 1,", "")), "a piece is missing"));
  EXPECT_TRUE(contains(broken("vocab.json", replaced("\"<unk>\": 1", "\"<unk>\": \"one\"")),
                       "vocab.json: <unk>: expected an integer, found \"one\""));
  EXPECT_TRUE(contains(broken("vocab.json", replaced("<pad>", "<bad>")), "<pad>"));
  EXPECT_TRUE(contains(broken("vocab.json", "{\"</s>\": 0, \"<unk>\": 1, \"a\": 2, \"<pad>\": 3}"),
                       "belong together"));
  EXPECT_TRUE(contains(broken("source.spm", model.substr(0, model.size() - 7)), "truncated"));
  EXPECT_TRUE(contains(broken("target.spm", "no model at all"), "SentencePiece model"));
  EXPECT_TRUE(contains(broken("source.spm", ""), "0 bytes"));
  EXPECT_TRUE(contains(broken("tokenizer_config.json", "{"), "expected JSON"));

  tokenizer.save(folder);
  EXPECT_EQ(load().fingerprint(), tokenizer.fingerprint());
  const std::string size =
      message_of<DataError>([&] { TranslationTokenizer::load(folder, {.source = 119, .target = 0}); });
  EXPECT_TRUE(contains(size, "expected 119 pieces")) << size;
  EXPECT_TRUE(contains(size, "found 120")) << size;
  std::filesystem::remove(folder / "target.spm");
  EXPECT_TRUE(contains(message_of<IoError>(load), "target.spm"));
}

TEST(TrainSentencepiece, SameTextSameBytes) {
  const Corpora corpora;
  for (const SubwordKind kind : {SubwordKind::unigram, SubwordKind::bpe}) {
    const TrainOptions options{.inputs = {corpora.english, corpora.german}, .vocab_size = 100, .kind = kind};
    const std::string model = train_sentencepiece(options);
    EXPECT_EQ(train_sentencepiece(options), model);
    // Sampling is a function of the seed too.
    TrainOptions sampled = options;
    sampled.max_sentences = 200;
    TrainedLines lines;
    const std::string from_sample = train_sentencepiece(sampled, nullptr, &lines);
    EXPECT_EQ(lines.used, 200);
    EXPECT_EQ(lines.lines, count_lines(corpora.english) + count_lines(corpora.german));
    EXPECT_NE(from_sample, model);
    EXPECT_EQ(train_sentencepiece(sampled), from_sample);
    sampled.seed = 2;
    EXPECT_NE(train_sentencepiece(sampled), from_sample);
    sampled.max_sentences = 0;
    EXPECT_EQ(train_sentencepiece(sampled), model);
  }
}

TEST(TrainSentencepiece, StopsOnRequest) {
  const Corpora corpora;
  const TrainOptions options{.inputs = {corpora.english}, .vocab_size = 70, .character_coverage = 1};
  std::atomic<bool> stop = false;
  EXPECT_EQ(train_sentencepiece(options, &stop), train_sentencepiece(options));
  // Errors come from the other thread.
  EXPECT_THROW(train_sentencepiece({.inputs = {corpora.folder / "missing"}, .vocab_size = 70}, &stop),
               IoError);
  stop = true;
  EXPECT_THROW(train_sentencepiece(options, &stop), Stopped);
  // A stop in the middle: the abandoned training finishes, or ends with this process.
  corpora.folder.write("large", corpus(kEnglish, 3) + corpus(kGerman, 4));
  stop = false;
  std::thread later([&] { stop = true; });
  try {
    EXPECT_FALSE(
        train_sentencepiece({.inputs = {corpora.folder / "large"}, .vocab_size = 90}, &stop).empty());
  } catch (const Stopped&) {
  }
  later.join();
}

TEST(TrainSentencepiece, NamesThePossibleSizes) {
  const Corpora corpora;
  for (const SubwordKind kind : {SubwordKind::unigram, SubwordKind::bpe}) {
    TrainOptions options{
        .inputs = {corpora.english}, .vocab_size = 100'000, .kind = kind, .character_coverage = 1};
    std::string message = message_of<UsageError>([&] { train_sentencepiece(options); });
    ASSERT_TRUE(contains(message, "expected at most ")) << message;
    options.vocab_size = std::stoll(message.substr(message.find("at most ") + 8));
    const std::string largest = train_sentencepiece(options);
    EXPECT_EQ(TranslationTokenizer::from_models({largest, {}, {}, {}}).size(), options.vocab_size);
    ++options.vocab_size;
    EXPECT_THROW(train_sentencepiece(options), UsageError);
    options.smaller_if_needed = true;
    EXPECT_EQ(train_sentencepiece(options), largest);
    options.vocab_size = 5;
    message = message_of<UsageError>([&] { train_sentencepiece(options); });
    ASSERT_TRUE(contains(message, "expected at least ")) << message;
  }
}

TEST(TrainSentencepiece, NamesBadInput) {
  const Scratch folder;
  const auto train = [](const TrainOptions& options) { return [options] { train_sentencepiece(options); }; };
  EXPECT_TRUE(contains(message_of<UsageError>(train({})), "at least one text file"));
  EXPECT_TRUE(contains(message_of<IoError>(train({.inputs = {folder / "none"}})), "none"));
  const auto empty = folder.write("empty", "\n\n");
  EXPECT_TRUE(contains(message_of<DataError>(train({.inputs = {empty}})), "found none"));
  const auto text = folder.write("text", corpus(kEnglish, 3));
  EXPECT_THROW(train({.inputs = {text}, .vocab_size = 3})(), UsageError);
  EXPECT_THROW(train({.inputs = {text}, .character_coverage = 1.5})(), UsageError);
  EXPECT_THROW(train({.inputs = {text}, .max_sentences = -1})(), UsageError);
  const auto latin = folder.write("latin", corpus(kEnglish, 3) +
                                               "stra\xDF"
                                               "e\n");
  const std::string message = message_of<DataError>(train({.inputs = {latin}, .vocab_size = 80}));
  EXPECT_TRUE(contains(message, "line 301, byte 5")) << message;
  EXPECT_EQ(train_sentencepiece({.inputs = {latin}, .vocab_size = 80, .skip_bad_utf8 = true}),
            train_sentencepiece({.inputs = {text}, .vocab_size = 80}));
}

TEST(LineReader, EndsOfLines) {
  const Scratch folder;
  LineReader reader(folder.write("text", "\xEF\xBB\xBFone\r\n\ntwo \r\r\nlast"));
  std::vector<std::string> lines;
  for (std::string line; reader.next(line);) lines.push_back(line);
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "two \r", "last"}));
  EXPECT_EQ(reader.lines(), 4);
  EXPECT_EQ(count_lines(folder.write("ended", "a\nb\n")), 2);
  EXPECT_EQ(count_lines(folder.write("nothing", "")), 0);
  EXPECT_THROW(LineReader(folder.path()), IoError);
}

}  // namespace
}  // namespace qkv::text
