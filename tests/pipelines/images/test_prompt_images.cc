// Images in the prompts of language models. That results are transformers' is tests/apps/test_hub_folders.cc.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/images/prompt_images.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using qkv::testing::expect_parts;
using qkv::testing::message_of;

const std::filesystem::path kData = QKV_TEST_DATA;

std::string image_file(const std::string& name) { return (kData / "data/golden/images" / name).string(); }

data::Image image_named(const std::string& name) { return data::read_image(image_file(name)); }

class PromptImagesOf : public ::testing::TestWithParam<const char*> {
 protected:
  const TextGenerator generator_{kData / "apps/golden/hub" / GetParam()};
  const PromptImages& reader_ = *generator_.model().images;
  const std::string shown_ = reader_.placeholder();

  Prompt prompt(const std::string& text, const std::vector<std::string>& images) const {
    Prompt one{.text = text};
    for (const std::string& name : images) one.images.push_back(reader_.encode(image_named(name)));
    return one;
  }
  std::vector<Prompt> prompts() const {
    return {prompt(concat("the man ", shown_, " in the house"), {"rgb.png"}), prompt("a man of france", {}),
            prompt(concat(shown_, " and ", shown_, " red"), {"gray.png", "rgba.png"}),
            prompt(concat("the man ", shown_, " in the house"), {"gray.png"})};
  }
  static GenerateOptions options() {
    GenerateOptions options;
    options.search.max_new_tokens = 6;
    options.search.min_new_tokens = 6;
    return options;
  }
  // What one prompt gives, from its own engine.
  Generated alone(const Prompt& one, const search::EngineOptions& engine = {}) const {
    Generated found = generator_({&one, 1}, options(), engine).front();
    EXPECT_EQ(found.error, "");
    return found;
  }
};

void expect_same(const Generated& found, const Generated& expected) {
  ASSERT_EQ(found.error, "");
  ASSERT_EQ(found.completions.size(), 1U);
  EXPECT_EQ(found.completions[0].hypothesis.ids, expected.completions[0].hypothesis.ids);
  EXPECT_EQ(found.completions[0].hypothesis.token_log_probabilities,
            expected.completions[0].hypothesis.token_log_probabilities);
  EXPECT_EQ(found.prompt_tokens, expected.prompt_tokens);
}

TEST_P(PromptImagesOf, TheBitsDependOnThePromptAlone) {
  const std::vector<Prompt> all = prompts();
  std::vector<Generated> expected;
  for (const Prompt& one : all) expected.push_back(alone(one));
  EXPECT_NE(expected[0].completions[0].hypothesis.token_log_probabilities,
            expected[3].completions[0].hypothesis.token_log_probabilities)
      << "another image of as many tokens";
  for (const int64_t prefill : {1, 5, 23, 1000}) {
    const std::vector<Generated> found = generator_(all, options(), {.prefill_tokens = prefill});
    for (size_t i = 0; i < all.size(); ++i) expect_same(found[i], expected[i]);
  }
}

TEST_P(PromptImagesOf, ThePrefixCacheTellsImagesApart) {
  const std::vector<Prompt> all = prompts();
  search::Engine engine = generator_.make_engine({.prefix_bytes = 64 << 20});
  const auto run = [&](const Prompt& one) {
    GenerationRequest request = generator_.prepare(one, options());
    engine.submit(request.decode);
    search::Decoded decoded;
    while (!engine.idle()) {
      for (search::Decoded& done : engine.step()) decoded = std::move(done);
    }
    return generator_.finish(std::move(request), std::move(decoded));
  };
  for (const Prompt& one : all) expect_same(run(one), alone(one));
  const Generated again = run(all[0]), other = run(prompt(all[0].text, {"rgba.png"}));
  expect_same(again, alone(all[0]));
  EXPECT_EQ(again.reused_tokens, again.prompt_tokens - 1);
  expect_same(other, alone(prompt(all[0].text, {"rgba.png"})));
  EXPECT_LT(other.reused_tokens, 8) << "only the text before the image is the same";
  // The same beginning, which ends with an image, with and without another image after it.
  expect_same(run(prompt(concat(shown_, shown_, " a"), {"rgb.png", "gray.png"})),
              alone(prompt(concat(shown_, shown_, " a"), {"rgb.png", "gray.png"})));
  expect_same(run(prompt(concat(shown_, " a"), {"rgb.png"})),
              alone(prompt(concat(shown_, " a"), {"rgb.png"})));
}

TEST_P(PromptImagesOf, OtherNumbersOfPlaceholdersAreErrors) {
  const auto error = [&](const std::string& text, const std::vector<std::string>& images) {
    return generator_.prepare(prompt(text, images), options()).generated.error;
  };
  expect_parts(error("a man", {"rgb.png"}),
               {"expected " + shown_ + " for each of 1 image", "found it 0 times"});
  expect_parts(error("a " + shown_ + " man", {}), {"expected", shown_, "0 images", "1 time"});
  expect_parts(error(shown_ + shown_ + " a", {"rgb.png"}), {"1 image", "2 times"});
}

TEST_P(PromptImagesOf, TheLastImagesAreKept) {
  const data::Image image = image_named("rgb.png");
  const EncodedImageHandle first = reader_.encode(image);
  EXPECT_EQ(reader_.encode(image), first);
  data::Image other = image;
  other.pixels.back() ^= 1;
  EXPECT_NE(reader_.encode(other)->ids, first->ids) << "one bit of one pixel";
  EXPECT_EQ(std::ssize(first->ids), first->rows.rows());
  EXPECT_TRUE(std::ranges::all_of(first->ids, [](int32_t id) { return id < 0; }));
}

INSTANTIATE_TEST_SUITE_P(Families, PromptImagesOf,
                         ::testing::Values("llava-1.5-7b-hf", "SmolVLM-256M-Instruct", "gemma-3-4b-it"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; },
                               '_');
                           return name;
                         });

TEST(PromptImages, ImageTokensInATextAreAnError) {
  const TextGenerator generator(kData / "apps/golden/hub/gemma-3-4b-it");
  const Prompt prompt{.text = "a <start_of_image> <image_soft_token> b",
                      .images = {generator.model().images->encode(image_named("rgb.png"))}};
  expect_parts(generator.prepare(prompt, {}).generated.error,
               {"<image_soft_token> only where images are, 9 times", "found it 10 times"});
}

TEST(PromptImages, ATextGoesOnAfterAnImage) {
  const TextGenerator generator(kData / "apps/golden/hub/llava-1.5-7b-hf");
  const Prompt prompt{.text = "a <image>",
                      .images = {generator.model().images->encode(image_named("rgb.png"))}};
  const Generated found = generator({&prompt, 1}, generator.default_options()).front();
  expect_parts(found.error, {"prompt: expected a text after the last image, found its end"});
}

TEST(PromptImages, AWindowHoldsAnImage) {
  const qkv::testing::Scratch scratch;
  std::filesystem::copy(kData / "apps/golden/hub/gemma-3-4b-it", scratch / "model");
  std::string config = read_file(scratch / "model/config.json");
  config.replace(config.find("\"sliding_window\": 16"), 20, "\"sliding_window\": 8");
  scratch.write("model/config.json", config);
  std::vector<std::string> log;
  set_log_sink([&](LogLevel, const std::string& message) { log.push_back(message); });
  const TextGenerator generator(scratch / "model");
  set_log_sink({});
  ASSERT_EQ(log.size(), 1U);
  expect_parts(log[0], {"images are not read", "sliding_window", "9 rows", "8"});
  expect_parts(message_of<DataError>([&] { generator.image("", "cat.png"); }), {"cat.png", "sliding_window"});
  const Prompt text{.text = "a man"};
  EXPECT_EQ(generator({&text, 1}, generator.default_options()).front().error, "") << "texts are read";
}

TEST(PromptImages, OtherModelsReadNone) {
  const TextGenerator generator(kData / "apps/golden/hub/gpt2");
  EXPECT_EQ(generator.model().images, nullptr);
  expect_parts(message_of<DataError>([&] { generator.image("", "cat.png"); }),
               {"cat.png: ", "gpt2", "reads no images"});
}

TEST(PromptImages, DamagedFilesAreNamed) {
  const TextGenerator generator(kData / "apps/golden/hub/llava-1.5-7b-hf");
  expect_parts(message_of<DataError>([&] { generator.image("GIF89a", "cat.gif"); }),
               {"cat.gif: ", "PNG or JPEG"});
}

}  // namespace
}  // namespace qkv::pipelines
