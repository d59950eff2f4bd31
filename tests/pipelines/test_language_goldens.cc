// Folders of BART's kin give transformers' ids and texts (tests/golden/language_folders.py).

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/pipelines/pieces.h"
#include "qkv/pipelines/score.h"
#include "qkv/pipelines/text_attention.h"
#include "tests/pipelines/translation_golden.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using nlohmann::json;
using qkv::testing::message_of;
using qkv::testing::Scratch;

class LanguageGolden : public testing::TranslationGolden {
 protected:
  explicit LanguageGolden(const std::string& name = "nllb")
      : TranslationGolden(name), options_(default_options(model_)) {
    options_.search.max_source_factor = 0;
  }
  Translation translated(const json& one) {
    options_.languages = {.source_language = one["source_language"],
                          .target_language = one["target_language"]};
    const std::vector<std::string> source{one["source"].get<std::string>()};
    return Translator(loaded_)(source, options_).at(0);
  }
  static std::shared_ptr<const models::TranslationModel> other(const std::string& name) {
    return open_translation_model(std::filesystem::path(QKV_TEST_DATA) / "pipelines" / "golden" / name);
  }
  static std::string refused(const std::string& name, const Languages& languages) {
    const Translator translator(other(name));
    TranslateOptions options = translator.default_options();
    options.languages = languages;
    return message_of<UsageError>([&] { translator.prepare({.text = "one"}, options); });
  }

  // Of the best output. transformers adds an end token at the limit only if the folder forces it.
  static std::vector<int32_t> ids_of(const Translation& translation, const TranslateOptions& options) {
    search::Hypothesis best = translation.hypotheses.at(0).hypothesis;
    if (!best.complete && !options.search.forced_eos) best.ids.pop_back();
    return best.ids;
  }

  TranslateOptions options_;
};

class LanguageGoldens : public LanguageGolden, public ::testing::WithParamInterface<const char*> {
 protected:
  LanguageGoldens() : LanguageGolden(GetParam()) {}
};

TEST_P(LanguageGoldens, SameIds) {
  for (const json& one : cases_) {
    const text::Around around = around_source(model_, one["source_language"].get<std::string>());
    EXPECT_EQ(source_ids(model_, one["source"].get<std::string>(), around),
              one["source_ids"].get<std::vector<int32_t>>())
        << one["source"];
  }
}

TEST_P(LanguageGoldens, SameTexts) {
  const int beam = options_.search.beam;
  for (const json& one : cases_) {
    options_.search.beam = beam;
    const Translation by_beam = translated(one);
    EXPECT_EQ(ids_of(by_beam, options_), one["beam_ids"].get<std::vector<int32_t>>()) << one["source"];
    EXPECT_EQ(by_beam.text, one["beam_text"].get<std::string>());
    options_.search.beam = 1;
    EXPECT_EQ(ids_of(translated(one), options_), one["greedy_ids"].get<std::vector<int32_t>>());
  }
}

TEST_P(LanguageGoldens, ALongSourceKeepsWhatStandsAroundIt) {
  options_.truncate = true;
  options_.max_source_tokens = 5;
  const TranslationRequest request =
      Translator(loaded_).prepare({.text = "one two three four five six"}, options_);
  const text::Around around = around_source(model_);
  ASSERT_EQ(request.decode.source.size(), 5u) << request.translation.error;
  EXPECT_TRUE(
      std::ranges::equal(std::span(request.decode.source).first(around.before.size()), around.before));
  EXPECT_TRUE(std::ranges::equal(std::span(request.decode.source).last(around.after.size()), around.after));
}

INSTANTIATE_TEST_SUITE_P(Folders, LanguageGoldens,
                         ::testing::Values("bart", "nllb", "mbart", "mbart50", "m2m_100", "pegasus"));

// Older folders of BART have the files of a byte-level BPE, as RoBERTa's.
TEST_F(LanguageGolden, SameIdsFromTheOlderFilesOfBart) {
  const Scratch folder;
  const std::filesystem::path golden = std::filesystem::path(QKV_TEST_DATA) / "pipelines/golden/bart";
  const json model = json::parse(read_file(golden / "tokenizer.json"))["model"];
  std::string merges;
  for (const json& pair : model["merges"])
    merges += concat(pair[0].get<std::string>(), " ", pair[1].get<std::string>(), "\n");
  folder.write("vocab.json", model["vocab"].dump());
  folder.write("merges.txt", merges);
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "BartTokenizer"})");
  const auto tokenizer = text::TranslationTokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.around_source().before, std::vector{0});
  EXPECT_EQ(tokenizer.around_source().after, std::vector{2});
  const auto expected = other("bart");
  for (const std::string text : {"one two three", "x² ﬁve 人", "seven</s> one"})
    EXPECT_EQ(tokenizer.encode_source(text), expected->tokenizer->encode_source(text)) << text;
}

TEST_F(LanguageGolden, LanguagesAreListed) {
  EXPECT_EQ(model_.tokenizer->languages(), (std::vector<std::string>{"eng_Latn", "deu_Latn"}));
  EXPECT_EQ(model_.tokenizer->source_lang(), "eng_Latn");
  EXPECT_FALSE(other("bart")->tokenizer->has_languages());
  const std::vector<std::string> all = other("m2m_100")->tokenizer->languages();
  EXPECT_EQ(all.size(), 100u);
  EXPECT_EQ(all.front(), "af");

  // transformers 5 writes no list of M2M-100's languages: they are those of the class.
  const Scratch folder;
  for (const char* const name : {"vocab.json", "sentencepiece.bpe.model"})
    std::filesystem::copy_file(folder_.parent_path() / "m2m_100" / name, folder / name);
  folder.write("tokenizer_config.json",
               R"({"tokenizer_class": "M2M100Tokenizer", "language_codes": "m2m100"})");
  const auto unlisted = text::TranslationTokenizer::load(folder.path());
  EXPECT_EQ(unlisted.languages(), all);
  EXPECT_EQ(unlisted.target_language("zu"), other("m2m_100")->tokenizer->target_language("zu"));
  folder.write("tokenizer_config.json",
               R"({"tokenizer_class": "M2M100Tokenizer", "language_codes": "wmt21"})");
  EXPECT_EQ(text::TranslationTokenizer::load(folder.path()).languages().size(), 8u);
}

TEST_F(LanguageGolden, AnUnknownLanguageIsRefused) {
  EXPECT_EQ(
      refused("nllb", {.source_language = "xyz_Latn"}),
      "source_language: expected one of the model's 2 languages (eng_Latn to deu_Latn), found xyz_Latn");
  EXPECT_EQ(refused("nllb", {.target_language = "German"}),
            "target_language: expected one of the model's 2 languages (eng_Latn to deu_Latn), found German");
  EXPECT_EQ(refused("bart", {.source_language = "en_XX"}),
            "source_language: expected none, as the model's texts do not name their language, found en_XX");
  EXPECT_EQ(refused("mbart", {.target_language = "de_DE"}),
            "target_language: expected ro_RO, with which the model's outputs begin, found de_DE");
}

// transformers' legacy_behaviour of NLLB: the language follows </s>.
TEST_F(LanguageGolden, TheFolderDecidesHowSourcesNameTheirLanguage) {
  const Scratch folder;
  for (const char* const name : {"tokenizer.json", "config.json"})
    std::filesystem::copy_file(folder_ / name, folder / name);
  const auto around = [&](const char* config) {
    folder.write("tokenizer_config.json", config);
    return text::TranslationTokenizer::load(folder.path()).around_source();
  };
  const int32_t english = model_.tokenizer->target_language("eng_Latn"),
                german = model_.tokenizer->target_language("deu_Latn"), end = 2;
  const std::string tokens = R"("eos_token": "</s>", "extra_special_tokens": ["eng_Latn", "deu_Latn"])";
  text::Around found =
      around(concat(R"({"tokenizer_class": "NllbTokenizer", "src_lang": "deu_Latn", )", tokens, "}").c_str());
  EXPECT_EQ(found.before, std::vector{german});
  EXPECT_EQ(found.after, std::vector{end});
  found = around(
      concat(R"({"tokenizer_class": "NllbTokenizerFast", "legacy_behaviour": true, )", tokens, "}").c_str());
  EXPECT_TRUE(found.before.empty());
  EXPECT_EQ(found.after, (std::vector{end, english}));
  EXPECT_THROW(around(concat(R"({"tokenizer_class": "MBart50Tokenizer", )", tokens, "}").c_str()), UsageError)
      << "there is no en_XX";
}

// Otherwise sources would have no language, without a word.
TEST_F(LanguageGolden, ATokenizerOfAnUnknownClassIsRefused) {
  const Scratch scratch;
  std::filesystem::copy(std::filesystem::path(QKV_TEST_DATA) / "pipelines/golden/nllb", scratch / "nllb");
  for (const char* config : {"{}", R"({"tokenizer_class": "FooTokenizer"})"}) {
    scratch.write("nllb/tokenizer_config.json", config);
    qkv::testing::expect_throw<DataError>(
        "tokenizer_config.json: tokenizer_class: expected NllbTokenizer or M2M100Tokenizer",
        [&] { open_translation_model(scratch / "nllb"); });
  }
}

// The forced language precedes the prefix, scored targets, and captured ones.
TEST_F(LanguageGolden, OutputsBeginWithTheTargetLanguage) {
  const int32_t german = model_.tokenizer->target_language("deu_Latn");
  options_.languages.target_language = "deu_Latn";
  std::vector<int32_t> expected = model_.tokenizer->encode_target("eins");
  expected.insert(expected.begin(), german);
  const Source source{.text = "one", .prefix = "eins"};
  const Translation found = Translator(loaded_)(std::span(&source, 1), options_).at(0);
  const std::vector<int32_t>& ids = found.hypotheses.at(0).hypothesis.ids;
  ASSERT_GT(ids.size(), expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), ids.begin()));
  EXPECT_TRUE(found.text.starts_with("eins")) << found.text;

  const auto bart = other("bart");
  const std::vector<TextPair> pairs{{.source = "one two", .target = "three"}};
  EXPECT_EQ(PairScorer(bart)(pairs).at(0).tokens.front(), "<s>");
  const TextCapture capture = capture_text(*bart, "one two", "three", {});
  EXPECT_EQ(capture.source_tokens.front(), "<s>");
  EXPECT_EQ(capture.source_special.front(), 1);
  EXPECT_EQ(capture.source_special.at(1), 0);
  EXPECT_EQ(capture.target_output_tokens.front(), "<s>");
  EXPECT_EQ(capture.target_special.front(), 1);
}

}  // namespace
}  // namespace qkv::pipelines
