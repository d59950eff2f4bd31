#include "qkv/pipelines/open_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "qkv/base/error.h"
#include "qkv/pipelines/classify.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/images/images.h"
#include "qkv/pipelines/score.h"
#include "qkv/pipelines/tag.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using qkv::testing::expect_parts;
using qkv::testing::message_of;
using qkv::testing::Scratch;

const std::filesystem::path kData = QKV_TEST_DATA;
const std::filesystem::path kModels = kData / "models" / "golden";

template <class Handle>
Handle opened_as(const std::filesystem::path& folder) {
  return std::get<Handle>(open_model(folder));
}

TEST(OpenModel, OpensTheKindOfTheFolder) {
  for (const char* name : {"marian", "t5"}) {
    const auto model =
        opened_as<std::shared_ptr<const models::TranslationModel>>(kData / "pipelines/golden" / name);
    EXPECT_GT(model->tokenizer->size(), 20);
    EXPECT_GT(model->generation.beam, 1);
  }
  const auto language = opened_as<std::shared_ptr<const LoadedLanguageModel>>(kModels / "gpt2_untied_relu");
  EXPECT_EQ(language->folder, kModels / "gpt2_untied_relu");
  EXPECT_LE(language->tokenizer.size(), language->model->config().vocabulary);
  EXPECT_EQ(language->generation.beam, 1);
  const auto encoder = opened_as<std::shared_ptr<const LoadedTextEncoder>>(kModels / "bert_texts");
  EXPECT_EQ(encoder->model->config().labelled, models::ClassificationTarget::texts);
  EXPECT_FALSE(encoder->tokenizer.encode("a red dog").ids.empty());
  const auto image = opened_as<std::shared_ptr<const LoadedImageEncoder>>(kModels / "deit_images");
  EXPECT_TRUE(image->model->config().distilled);
  EXPECT_TRUE(image->preprocessing.size().has_value());
}

// A tokenizer may have more tokens than the model, as after an added [PAD]: only a text with such a token is
// an error.
TEST(OpenModel, ATokenizerMayHaveMoreTokensThanTheModel) {
  const auto with_more = [](const std::filesystem::path& from, const Scratch& folder) {
    std::filesystem::copy(from, folder.path(), std::filesystem::copy_options::recursive);
    folder.write("tokenizer_config.json",
                 R"({"tokenizer_class": "TokenizersBackend", "pad_token": "<more>"})");
  };
  const Scratch language, encoder;
  with_more(kModels / "gpt2_untied_relu", language);
  const TextGenerator generator(language.path());
  const std::vector<Prompt> prompts{{.text = "the man"}, {.text = "the <more> man"}};
  const auto completions = generator(prompts, generator.default_options());
  EXPECT_EQ(completions[0].error, "");
  expect_parts(completions[1].error, {"ids from 0 to 22", "found 23"});
  const std::vector<std::string> texts{"the man", "the <more> man"};
  const auto scores = TextScorer(language.path())(texts);
  EXPECT_EQ(scores[0].error, "");
  expect_parts(scores[1].error, {"ids from 0 to 22", "found 23"});
  with_more(kModels / "bert_texts", encoder);
  const auto labels = TextClassifier(encoder.path())(texts);
  EXPECT_EQ(labels[0].error, "");
  expect_parts(labels[1].error, {"found 23"});
}

// A slower start fails only here: a sleep or a second reading of the weights changes no result.
TEST(NightlyStart, SmallFoldersOpenWithinATenthOfASecond) {
  using Clock = std::chrono::steady_clock;
  for (const char* name : {"pipelines/golden/marian", "pipelines/golden/t5", "models/golden/gpt2_untied_relu",
                           "models/golden/bert_texts", "models/golden/deit_images"}) {
    double least = 1e9;  // of several, as other programs may be running
    for (int i = 0; i < 5; ++i) {
      const Clock::time_point began = Clock::now();
      open_model(kData / name);
      least = std::min(least, std::chrono::duration<double>(Clock::now() - began).count());
    }
    EXPECT_LT(least, 0.1) << name;
  }
}

TEST(OpenModel, OpensTheEncoderOfAnEncoderDecoder) {
  const auto encoder = open_text_encoder(kData / "pipelines/golden/t5");
  EXPECT_FALSE(encoder->model->config().max_positions.has_value());
}

// A handle outlives its first owner.
TEST(OpenModel, HandlesAreShared) {
  std::optional<TextClassifier> classifier;
  std::weak_ptr<const LoadedTextEncoder> watched;
  {
    const auto encoder = open_text_encoder(kModels / "bert_texts");
    watched = encoder;
    classifier.emplace(encoder);
  }
  const std::vector<std::string> texts{"a red dog"};
  EXPECT_EQ((*classifier)(texts).front().error, "");
  EXPECT_FALSE(watched.expired());
  classifier.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(OpenModel, ErrorNamesTheKindAndItsPipelines) {
  expect_parts(message_of<DataError>([] { open_translation_model(kModels / "gpt2_untied_relu"); }),
               {"config.json", "\"model_type\"", "an encoder-decoder of texts (t5, marian, qkv, bart",
                "found \"gpt2\"", "a language model", "qkv generate"});
  expect_parts(message_of<DataError>([] { open_language_model(kModels / "bert_texts"); }),
               {"a language model (", "llama, mistral", "found \"bert\"", "a text encoder",
                "qkv fill-mask, classify, tag or embed"});
  expect_parts(
      message_of<DataError>([] { open_text_encoder(kModels / "vit_images"); }),
      {"a text encoder (bert, roberta, ", "found \"vit\"", "an image encoder", "qkv classify or embed"});
  expect_parts(message_of<DataError>([] { open_text_encoder(kData / "pipelines/golden/marian"); }),
               {"a text encoder", "found \"marian\"", "an encoder-decoder", "qkv translate"});
  expect_parts(message_of<DataError>([] { open_image_encoder(kData / "pipelines/golden/t5"); }),
               {"an image encoder (vit, deit, ", "found \"t5\"", "an encoder-decoder"});
  expect_parts(message_of<DataError>([] { open_speech_model(kData / "pipelines/golden/t5"); }),
               {"an encoder-decoder of audio (whisper)", "found \"t5\"", "an encoder-decoder of texts"});
  expect_parts(message_of<DataError>([] { open_translation_model(kData / "apps/golden/hub/whisper-tiny"); }),
               {"an encoder-decoder of texts (t5", "found \"whisper\"", "an encoder-decoder of audio",
                "qkv transcribe"});
}

TEST(OpenModel, ErrorNamesTheFolder) {
  expect_parts(message_of<IoError>([] { open_model(kModels / "nowhere"); }), {"nowhere", "no such folder"});
  expect_parts(message_of<IoError>([] { open_image_encoder(kModels / "vit_base"); }),
               {"preprocessor_config.json"});
  const Scratch copy;
  std::filesystem::copy(kModels / "gpt2_untied_relu", copy.path());
  copy.write("config.json", R"({"model_type": "mamba"})");
  expect_parts(message_of<DataError>([&] { open_model(copy.path()); }),
               {"config.json", "model_type", "gpt2", "vit", "mamba"});
}

TEST(OpenModel, RejectsAModelWithoutTheHead) {
  expect_parts(message_of<DataError>([] { TextClassifier{kModels / "bert_masked"}; }),
               {"a text classification head"});
  expect_parts(message_of<DataError>([] { TokenTagger{kModels / "bert_texts"}; }),
               {"a token classification head"});
  expect_parts(message_of<DataError>([] { MaskFiller{kModels / "bert_texts"}; }), {"masked-language head"});
}

}  // namespace
}  // namespace qkv::pipelines
