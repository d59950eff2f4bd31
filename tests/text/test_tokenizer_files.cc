// Tokenizer files that are damaged, inconsistent or unsupported: errors name file and part.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/text/tokenizer.h"
#include "tests/support/scratch.h"

namespace qkv::text {
namespace {

using nlohmann::json;
using qkv::testing::message_of;
using qkv::testing::Scratch;

json golden(const std::string& name) {
  return json::parse(read_file(std::filesystem::path(QKV_TEST_DATA) / "text/golden" / (name + ".json")));
}

void expect_refused(const std::string& content, const std::vector<std::string>& parts) {
  const std::string message = message_of<DataError>([&] { Tokenizer::from_json(content, "my.json"); });
  EXPECT_NE(message.find("my.json"), std::string::npos) << message;
  testing::expect_parts(message, parts);
}

// A file with one modification.
void expect_refused(const std::string& name, const char* pointer, const json& value,
                    const std::vector<std::string>& parts) {
  json content = golden(name);
  content[json::json_pointer(pointer)] = value;
  expect_refused(content.dump(), parts);
}

TEST(TokenizerJson, RejectsInvalidJson) {
  expect_refused("", {"expected JSON", "line 1, column 1"});
  expect_refused(R"({"model": {"type": "BPE")", {"expected JSON"});
  expect_refused("[1, 2]", {"expected an object"});
  expect_refused("{\"model\": 1e999}", {"expected JSON", "1e999"});
  expect_refused("{}", {"'model'"});
  expect_refused(std::string(1'000'000, '['), {"expected JSON"});
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"a":)";
  expect_refused(deep, {"expected JSON", "64 deep"});
  // Equally deep, but in a part that is not read before its type is rejected.
  const std::string lists = std::string(120'000, '[') + std::string(120'000, ']');
  expect_refused(R"({"model": )" + lists + "}", {"64 deep"});
}

TEST(TokenizerJson, NamesUnsupportedParts) {
  expect_refused("wordpiece", "/version", "2.0", {"version", "2.0"});
  expect_refused("wordpiece", "/normalizer", {{"type", "Nmt"}}, {"normalizer.type", "Nmt", "NFKC"});
  expect_refused("wordpiece", "/pre_tokenizer", {{"type", "UnicodeScripts"}},
                 {"pre_tokenizer.type", "UnicodeScripts"});
  expect_refused("wordpiece", "/decoder", {{"type", "CTC"}}, {"decoder.type", "CTC"});
  expect_refused("wordpiece", "/post_processor", {{"type", "Other"}}, {"post_processor.type", "Other"});
  expect_refused("wordpiece", "/model/type", "Other", {"model.type", "Other", "WordPiece"});
  expect_refused("byte_level", "/model/dropout", 0.1, {"model.dropout", "0.1"});
  json nested = {{"type", "NFC"}};
  for (int i = 0; i < 20; ++i) nested = {{"type", "Sequence"}, {"normalizers", json::array({nested})}};
  expect_refused("wordpiece", "/normalizer", nested, {"normalizer.normalizers[0]", "8 deep"});
}

TEST(TokenizerJson, RejectsBrokenVocabularies) {
  expect_refused("wordpiece", "/model/vocab/fox", 1.5, {"model.vocab.fox", "integer"});
  expect_refused("wordpiece", "/model/vocab/zzz", 7, {"model.vocab", "'zzz'", "7"});
  expect_refused("wordpiece", "/model/vocab/zzz", -1, {"model.vocab", "'zzz'", "-1"});
  expect_refused("wordpiece", "/model/vocab/zzz", 4294967295u, {"model.vocab", "4294967295"});
  expect_refused("wordpiece", "/model/vocab/zzz", 18446744073709551615u, {"model.vocab.zzz", "integer"});
  expect_refused("wordpiece", "/model/vocab", json::array(), {"model.vocab", "object"});
  expect_refused("wordpiece", "/model/unk_token", "[NONE]", {"model", "[NONE]"});
  expect_refused("byte_level", "/model/merges/3", "onlyone", {"merges[3]", "two tokens"});
  expect_refused("byte_level", "/model/merges/3", json::array({"a", "b", "c"}), {"merges[3]", "two tokens"});
  expect_refused("byte_level", "/model/merges/3", json::array({"no such", "token"}),
                 {"merge 4", "'no such'"});
  expect_refused("byte_level", "/model/merges/3", "a 中", {"merge 4"});
  expect_refused("byte_fallback", "/model/unk_token", "<none>", {"<none>"});
  expect_refused("unigram", "/model/unk_id", 100'000, {"100000"});
  expect_refused("unigram", "/model/unk_id", nullptr, {"unk_id", "integer"});
  expect_refused("unigram", "/model/vocab/4", "text", {"model.vocab[4]", "list"});
  expect_refused("unigram", "/model/vocab/4/1", "text", {"model.vocab[4][1]", "number"});
}

TEST(TokenizerJson, LastOfDuplicateNamesCounts) {
  const Tokenizer tokenizer = Tokenizer::from_json(
      R"({"pre_tokenizer": {"type": "WhitespaceSplit"}, "model": {"type": "None", "type": "WordLevel",
          "unk_token": "?", "vocab": {"a": 0, "b": 1, "?": 2, "a": 3}}})",
      "tokenizer.json");
  EXPECT_EQ(tokenizer.encode("a b").ids, (std::vector<int32_t>{3, 1}));
  EXPECT_EQ(tokenizer.token(0), std::nullopt);
}

TEST(TokenizerJson, RejectsBrokenSteps) {
  expect_refused("unigram", "/normalizer/normalizers/0/precompiled_charsmap", "AAA!",
                 {"precompiled_charsmap", "base64"});
  expect_refused("unigram", "/normalizer/normalizers/0/precompiled_charsmap",
                 "/////w==", {"precompiled_charsmap", "character map"});
  expect_refused("unigram", "/normalizer/normalizers/1/pattern", {{"Regex", "(unclosed"}},
                 {"normalizers[1].pattern", "(unclosed"});
  expect_refused("unigram", "/normalizer/normalizers/1/pattern", {{"Regex", "[a[bc]]"}}, {"a nested class"});
  expect_refused("unigram", "/normalizer/normalizers/1/pattern", json::object(), {"pattern"});
  expect_refused("unigram", "/pre_tokenizer/replacement", "two", {"replacement", "one character"});
  expect_refused("unigram", "/pre_tokenizer/prepend_scheme", "often", {"prepend_scheme", "often"});
  expect_refused("wordpiece", "/post_processor/single/0/SpecialToken/id", "[NONE]",
                 {"special_tokens", "[NONE]"});
  expect_refused("wordpiece", "/post_processor/single/1/Sequence/id", "B",
                 {"post_processor.single[1]", "\"B\""});
  expect_refused("wordpiece_cased", "/post_processor/sep", json::array({"[SEP]"}), {"post_processor.sep"});
  expect_refused("word_level", "/pre_tokenizer/pretokenizers/0/behavior", "Sometimes",
                 {"behavior", "Sometimes"});
}

TEST(TokenizerJson, RejectsAddedTokensThatContradictTheVocabulary) {
  expect_refused("wordpiece", "/added_tokens/0/id", 77, {"added_tokens[0].id", "0"});
  expect_refused("wordpiece", "/added_tokens/0/content", "brand-new",
                 {"added_tokens[0].id", "no other token"});
  json content = golden("wordpiece");
  content["added_tokens"].push_back({{"id", content["added_tokens"].back()["id"]}, {"content", "another"}});
  expect_refused(content.dump(), {"added_tokens[8]"});
}

TEST(TokenizerJson, ExpensiveRegexGivesUp) {
  json content = golden("word_suffix");
  content["pre_tokenizer"] = {{"type", "Split"},
                              {"pattern", {{"Regex", "(a|aa)+[bc]"}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  const Tokenizer tokenizer = Tokenizer::from_json(content.dump(), "my.json");
  const std::string message = message_of<DataError>([&] { tokenizer.encode(std::string(60, 'a')); });
  EXPECT_NE(message.find("my.json: pre_tokenizer.pattern"), std::string::npos) << message;
  EXPECT_NE(message.find("(a|aa)+"), std::string::npos) << message;
}

TEST(TokenizerFolder, OlderFormats) {
  const Scratch folder;
  EXPECT_NE(message_of<IoError>([&] { Tokenizer::load(folder.path()); }).find("tokenizer.json"),
            std::string::npos);
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\r\nhello\n##s\n,\n");
  const Tokenizer bert = Tokenizer::load(folder.path());
  EXPECT_EQ(bert.encode("HELLOs, you").ids, (std::vector<int32_t>{2, 4, 5, 6, 1, 3}));
  EXPECT_EQ(bert.special_tokens().cls, 2);
  EXPECT_EQ(bert.special_tokens().mask, 7) << "it is not in the vocabulary, and gets the next id";
  folder.write("tokenizer_config.json",
               R"({"do_lower_case": false, "cls_token": {"content": "hello"}, "added_tokens_decoder":
                   {"4": {"content": "hello", "special": true}, "9": {"content": "mask it", "special": false}}})");
  const Tokenizer cased = Tokenizer::load(folder.path());
  EXPECT_EQ(cased.encode("HELLO mask it").ids, (std::vector<int32_t>{4, 1, 9, 3}));
  EXPECT_EQ(cased.special_tokens().cls, 4);

  folder.write("vocab.txt", "[CLS]\nno unknown token\n");
  const std::string message = message_of<DataError>([&] { Tokenizer::load(folder.path()); });
  EXPECT_NE(message.find("vocab.txt"), std::string::npos) << message;
}

// Files of all versions of transformers (tests/golden/token_folders.py).
TEST(TokenizerFolder, IdsAndTextsAreThoseOfTransformers) {
  const json folders = golden("folders");
  ASSERT_GE(folders.size(), 15u);
  for (const json& one : folders) {
    SCOPED_TRACE(one["name"]);
    const Scratch folder;
    for (const auto& [file, content] : one["files"].items()) {
      const bool golden_file = content == "unigram.json";
      folder.write(file, golden_file           ? golden("unigram").dump()
                         : content.is_string() ? content.get<std::string>()
                                               : content.dump());
    }
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    for (size_t i = 0; i < one["texts"].size(); ++i) {
      const auto ids = one["ids"][i].get<std::vector<int32_t>>();
      EXPECT_EQ(tokenizer.encode(one["texts"][i].get<std::string>()).ids, ids) << one["texts"][i];
      for (const bool skip : {true, false}) {
        const std::string text = one[skip ? "decoded" : "all"][i];
        EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = skip}), text);
        StreamDecoder stream(tokenizer, {.skip_special_tokens = skip});
        std::string streamed;
        for (const int32_t id : ids) streamed += stream.add(id);
        EXPECT_EQ(streamed + stream.finish(), text);
      }
    }
  }
}

// As in transformers' classes.
TEST(TokenizerFolder, ConfigOverridesTokenizerJson) {
  const Scratch folder;
  folder.write("tokenizer.json", golden("wordpiece").dump());
  const auto ids = [&](const char* text) { return Tokenizer::load(folder.path()).encode(text).ids; };
  const std::vector<int32_t> lower = ids("the token"), upper = ids("THE TOKEN");
  EXPECT_EQ(upper, lower);
  folder.write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(ids("the token"), lower);
  EXPECT_NE(ids("THE TOKEN"), lower);
  folder.write("tokenizer_config.json", R"({"strip_accents": false})");
  EXPECT_EQ(ids("THE TOKEN"), lower);
  EXPECT_NE(ids("th\u00e9 token"), lower);
}

TEST(TokenizerFolder, UnnamedTokensAreTheClassDefaults) {
  const Scratch folder;
  json content = golden("wordpiece");
  const int32_t mask = content["model"]["vocab"]["[MASK]"];
  folder.write("tokenizer.json", content.dump());
  EXPECT_EQ(Tokenizer::load(folder.path()).special_tokens().mask, std::nullopt);
  for (const char* const type : {"bert", "distilbert", "qkv-bert"}) {
    folder.write("config.json", concat(R"({"model_type": ")", type, "\"}"));
    EXPECT_EQ(Tokenizer::load(folder.path()).special_tokens().mask, mask) << type;
  }
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  EXPECT_EQ(Tokenizer::load(folder.path()).special_tokens().mask, std::nullopt);
}

TEST(TokenizerFolder, SpecialTokensMayTakeTheSpaceBeforeThem) {
  const Scratch folder;
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
  const auto begin = [&] { return Tokenizer::load(folder.path()).encode("a [MASK]").offsets[2].begin; };
  EXPECT_EQ(begin(), 2u);
  folder.write("special_tokens_map.json", R"({"mask_token": {"content": "[MASK]", "lstrip": true}})");
  EXPECT_EQ(begin(), 1u);
}

TEST(TokenizerFolder, VocabularyAndMerges) {
  const Scratch folder;
  const json content = golden("byte_level");
  folder.write("vocab.json", content["model"]["vocab"].dump());
  std::string merges = "#version: 0.2\n";
  for (const json& merge : content["model"]["merges"]) {
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  }
  folder.write("merges.txt", merges);
  folder.write("tokenizer_config.json",
               R"({"tokenizer_class": "RobertaTokenizer", "add_prefix_space": true})");
  const Tokenizer roberta = Tokenizer::load(folder.path());
  const Tokenizer same = Tokenizer::from_json(content.dump(), "byte_level.json");
  for (const char* text : {"Hello world", "the library", " spaces  and é\n"}) {
    const Encoding found = roberta.encode(text, "second"), expected = same.encode(text, "second");
    EXPECT_EQ(found.ids, expected.ids);
    EXPECT_EQ(found.offsets, expected.offsets);
  }
  EXPECT_EQ(roberta.special_tokens().eos, 2);
  folder.write("tokenizer_config.json",
               R"({"add_bos_token": true, "bos_token": "<s>", "eos_token": "</s>"})");
  const Encoding begun = Tokenizer::load(folder.path()).encode("a", "b");
  EXPECT_EQ(begun.ids.size(), 4u);
  EXPECT_EQ(begun.special_mask, (std::vector<uint8_t>{1, 0, 1, 0}));
  EXPECT_EQ(begun.type_ids, (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(begun.ids[0], 0);
  folder.write("merges.txt", "#version: 0.2\na b c\n");
  const std::string message = message_of<DataError>([&] { Tokenizer::load(folder.path()); });
  EXPECT_NE(message.find("merges.txt:2"), std::string::npos) << message;
  std::filesystem::remove(folder / "merges.txt");
  EXPECT_NE(message_of<IoError>([&] { Tokenizer::load(folder.path()); }).find("merges.txt"),
            std::string::npos);
}

TEST(TokenizerFolder, SentencePieceModels) {
  const Scratch folder;
  const std::string model =
      read_file(std::filesystem::path(QKV_TEST_DATA) / "text/golden/sentencepiece_bpe.model");
  folder.write("spiece.model", model);
  const std::vector<int32_t> plain = Tokenizer::load(folder.path()).encode("the texts </s>").ids;
  ASSERT_GT(plain.size(), 3u);
  const auto with = [&](std::vector<int32_t> front, std::vector<int32_t> back) {
    front.insert(front.end(), plain.begin(), plain.end());
    front.insert(front.end(), back.begin(), back.end());
    return front;
  };
  constexpr int32_t kBos = 1, kEos = 2;
  folder.write("config.json", R"({"model_type": "llama"})");
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("the texts </s>").ids, with({kBos}, {}));
  folder.write("config.json", R"({"model_type": "t5"})");
  const Tokenizer t5 = Tokenizer::load(folder.path());
  EXPECT_EQ(t5.encode("the texts </s>").ids, with({}, {kEos}));
  EXPECT_EQ(t5.encode("the texts </s>").special_mask.back(), 1);
  EXPECT_EQ(t5.decode(t5.encode("the texts </s>").ids), "the texts </s>");  // the text </s> is text
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": false,
    "add_eos_token": true, "added_tokens_decoder": {"2": {"content": "</s>", "special": true},
                                                    "900": {"content": "<extra>", "special": true}}})");
  const Tokenizer told = Tokenizer::load(folder.path());
  EXPECT_EQ(told.encode("</s><extra>").ids, (std::vector<int32_t>{kEos, 900, kEos}));
  EXPECT_EQ(told.size(), 901);

  folder.write("spiece.model", model.substr(0, model.size() / 2));
  const std::string message = message_of<DataError>([&] { Tokenizer::load(folder.path()); });
  EXPECT_NE(message.find("spiece.model"), std::string::npos) << message;
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {"seven": {"content": "x"}}})");
  const std::string named = message_of<DataError>([&] { Tokenizer::load(folder.path()); });
  EXPECT_NE(named.find("tokenizer_config.json: added_tokens_decoder.seven"), std::string::npos) << named;
}

// Found by mutation: the library throws another type of exception for a piece that begins with a zero byte.
// A run of unknown characters is one token, however long. (The library's time grows with its square: it would
// take minutes here.)
TEST(TokenizerFolder, SentencePieceReadsLongRunsOfUnknownCharacters) {
  const std::filesystem::path data = QKV_TEST_DATA;
  for (const char* const name :
       {"text/golden/sentencepiece_unigram.model", "pipelines/golden/marian/source.spm"}) {
    const Scratch folder;
    folder.write("tokenizer.model", read_file(data / name));
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    const auto unknown = tokenizer.special_tokens().unk;
    ASSERT_TRUE(unknown);
    const auto places = [&](const std::string& text) {
      const Encoding encoding = tokenizer.encode(text, {.special_tokens = false, .truncation = {}});
      std::vector<ByteRange> found;
      for (size_t t = 0; t < encoding.size(); ++t)
        if (encoding.ids[t] == *unknown) found.push_back(encoding.offsets[t]);
      return found;
    };
    std::string run;
    for (int i = 0; i < 150'000; ++i) run += "\xF0\x93\x80\x80\xF0\x93\x80\x81";
    const std::vector<ByteRange> one = places(run.substr(0, 24)), long_one = places("a " + run + " a");
    ASSERT_EQ(one.size(), 1U);
    EXPECT_EQ(one[0].end, 24U);
    ASSERT_EQ(long_one.size(), 1U);
    EXPECT_EQ(long_one[0].begin, 2U);
    EXPECT_EQ(long_one[0].end, 2 + run.size());
    EXPECT_EQ(places(run.substr(0, 8) + " a " + run.substr(0, 8)).size(), 2U);
  }
}

TEST(TokenizerFolder, RejectsASentencePieceModelWithAZeroByte) {
  const Scratch folder;
  const std::string model =
      read_file(std::filesystem::path(QKV_TEST_DATA) / "text/golden/sentencepiece_unigram.model");
  // One more field 1, a piece: field 1 is its text, field 2 its score.
  folder.write("spiece.model", model + std::string("\x0A\x08\x0A\x01\x00\x15\x00\x00\x00\x00", 10));
  const std::string message = message_of<DataError>([&] { Tokenizer::load(folder.path()); });
  EXPECT_NE(message.find("spiece.model: expected a SentencePiece model"), std::string::npos) << message;
}

// transformers passes only these to the model, which then takes all types as 0.
TEST(TokenizerFolder, ModelInputNamesWithoutTokenTypes) {
  const Scratch folder;
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n");
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("a", "b").type_ids, (std::vector<int32_t>{0, 0, 0, 1, 1}));
  folder.write("tokenizer_config.json", R"({"model_input_names": ["input_ids", "attention_mask"]})");
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("a", "b").type_ids, (std::vector<int32_t>(5, 0)));
  folder.write("tokenizer_config.json", R"({"model_input_names": ["input_ids", "token_type_ids"]})");
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("a", "b").type_ids, (std::vector<int32_t>{0, 0, 0, 1, 1}));
}

// Its pieces are the model's with other numbers: fairseq's four symbols first, <mask> last.
TEST(TokenizerFolder, ReadsTheSentencePieceModelOfXlmRoberta) {
  const Scratch folder;
  const std::string model =
      read_file(std::filesystem::path(QKV_TEST_DATA) / "text/golden/sentencepiece_bpe.model");
  folder.write("spiece.model", model);
  const Tokenizer plain = Tokenizer::load(folder / "spiece.model");
  folder.write("sentencepiece.bpe.model", model);
  std::filesystem::remove(folder / "spiece.model");
  const std::string other = message_of<DataError>([&] { Tokenizer::load(folder.path()); });
  EXPECT_NE(other.find("sentencepiece.bpe.model: expected \"XLMRobertaTokenizer\""), std::string::npos)
      << other;

  folder.write("spiece.model", model);
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "PegasusTokenizer"})");
  EXPECT_NE(message_of<DataError>([&] {
              Tokenizer::load(folder / "spiece.model");
            }).find("spiece.model: expected a tokenizer.json"),
            std::string::npos);
  std::filesystem::remove(folder / "spiece.model");

  folder.write("tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  constexpr int32_t kBos = 0, kPad = 1, kEos = 2, kUnk = 3;
  const auto mask = static_cast<int32_t>(plain.size() + 1);
  EXPECT_EQ(tokenizer.size(), mask + 1);
  EXPECT_EQ(tokenizer.special_tokens().pad, kPad);
  EXPECT_EQ(tokenizer.special_tokens().unk, kUnk);
  EXPECT_EQ(tokenizer.special_tokens().mask, mask);
  const auto shifted = [&](std::string_view text) {
    std::vector<int32_t> ids = plain.encode(text).ids;
    for (int32_t& id : ids) ++id;
    return ids;
  };
  for (const std::string text : {"the texts of a model", "人工 naïve", ">>fra<< a code", ""}) {
    std::vector<int32_t> expected = shifted(text);
    expected.insert(expected.begin(), kBos);
    expected.push_back(kEos);
    EXPECT_EQ(tokenizer.encode(text).ids, expected) << text;
    EXPECT_EQ(tokenizer.decode(expected), plain.decode(plain.encode(text).ids)) << text;
  }
  EXPECT_EQ(tokenizer.encode("<mask></s>").ids, (std::vector<int32_t>{kBos, mask, kEos, kEos}));
  const std::vector<int32_t> first = shifted("a"), second = shifted("b");
  std::vector<int32_t> pair{kBos};
  pair.insert(pair.end(), first.begin(), first.end());
  pair.insert(pair.end(), {kEos, kEos});
  pair.insert(pair.end(), second.begin(), second.end());
  pair.push_back(kEos);
  EXPECT_EQ(tokenizer.encode("a", "b").ids, pair);
}

// SentencePiece follows a model's character map without checking bounds.
TEST(TokenizerFolder, RejectsADamagedCharacterMap) {
  const Scratch folder;
  const std::string model =
      read_file(std::filesystem::path(QKV_TEST_DATA) / "text/golden/sentencepiece_unigram.model");
  constexpr uint32_t kTrieBytes = 1024;
  const std::string begin(reinterpret_cast<const char*>(&kTrieBytes), sizeof kTrieBytes);
  const size_t map = model.find(begin);
  ASSERT_EQ(map, model.rfind(begin));
  const auto refusal = [&](size_t at, uint32_t value) {
    std::string damaged = model;
    damaged.replace(map + at, sizeof value, reinterpret_cast<const char*>(&value), sizeof value);
    folder.write("tokenizer.model", damaged);
    return message_of<DataError>([&] { Tokenizer::load(folder.path()); });
  };
  const size_t trie = sizeof kTrieBytes;
  for (const size_t unit : {0, 5, 100, 255}) {  // a child beyond the trie
    const std::string message = refusal(trie + 4 * unit, 0x7FFFFC00u);
    EXPECT_NE(message.find("tokenizer.model: expected a SentencePiece character map, found a trie"),
              std::string::npos)
        << message;
  }
  EXPECT_NE(refusal(0, 1u << 30).find("would be the trie"), std::string::npos);
  // Unit 7 with a value; its child (unit 7, without an offset) holds none.
  EXPECT_NE(refusal(trie + 4 * 7, 0x100u | (255u << 16)).find("a trie with a transition out"),
            std::string::npos);
  folder.write("tokenizer.model", model);
  EXPECT_FALSE(Tokenizer::load(folder.path()).encode("the texts").ids.empty());
}

// spm.model of DeBERTa; that it is read, and its ids, is a test of the commands (test_hub_folders.cc).
TEST(Deberta, RefusesOtherPiecesAndSettings) {
  const std::filesystem::path hub = std::filesystem::path(QKV_TEST_DATA) / "apps/golden/hub";
  const Scratch folder;
  const auto refused = [&](const std::vector<std::string>& parts) {
    testing::expect_parts(message_of<DataError>([&] { Tokenizer::load(folder.path()); }), parts);
  };
  std::filesystem::copy_file(hub / "deberta-v3-small/spm.model", folder / "spm.model");
  folder.write("config.json", R"({"model_type": "deberta-v2"})");
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("").ids, (std::vector<int32_t>{1, 2}));
  folder.write("tokenizer_config.json", R"({"split_by_punct": true})");
  refused({"tokenizer_config.json: split_by_punct: expected false"});
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "XLNetTokenizer"})");
  refused({"spm.model: expected \"DebertaV2Tokenizer\"", "found \"XLNetTokenizer\""});
  folder.write("tokenizer_config.json", "{}");
  folder.write("added_tokens.json", R"({"[MASK]": 5})");
  refused({"found 5 for '[MASK]'", "added_tokens.json"});
  std::filesystem::remove(folder / "added_tokens.json");
  std::filesystem::copy_file(hub / "t5-small/spiece.model", folder / "spm.model",
                             std::filesystem::copy_options::overwrite_existing);
  refused({"spm.model: expected DeBERTa's special tokens among its pieces, found no [CLS]"});
}

}  // namespace
}  // namespace qkv::text
