// Models: invalid configurations, inputs and folders; models that were moved from or have no values.

#include <gtest/gtest.h>

#include <climits>
#include <limits>

#include "qkv/base/files.h"
#include "qkv/models/hub/copies.h"
#include "qkv/models/hub/generation_defaults.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/hub/verify.h"
#include "qkv/models/image_processor.h"
#include "qkv/models/shape.h"
#include "qkv/models/translation_model.h"
#include "tests/support/misuse.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                kInfinity = std::numeric_limits<float>::infinity();

const std::filesystem::path kModels = std::filesystem::path(QKV_TEST_DATA) / "models" / "golden";

TransformerConfig small() {
  TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = 12;
  config.d_model = config.d_ff = 8;
  config.heads = 2;
  config.encoder_layers = config.decoder_layers = 1;
  return config;
}

// A model with this field is refused or can be built; no memory is taken for its parameters.
template <class Model, class Config>
void expect_built(const std::string& field, const Config& config) {
  expect_orderly(field, [&] { Model{config}; });
}

TEST(MisusedConfigurations, EveryFieldOfATransformer) {
  for (const auto& [name, value] : fields(small())) {
    for (const char* const text : {"", "-1", "0", "1", "3", "2147483648", "1152921504606846976",
                                   "9223372036854775807", "-9223372036854775808", "9223372036854775808",
                                   "1e300", "-1e300", "nan", "inf", "true", "false", "none", "\xFF"}) {
      TransformerConfig config = small();
      expect_orderly(name, [&] {
        EXPECT_TRUE(set_field(config, name, text));
        Transformer{config};
      });
    }
    TransformerConfig config = small();
    for (const int number : {-1, 100, INT_MAX}) {  // enums
      expect_orderly(name, [&] {
        config.tying = static_cast<Tying>(number);
        config.activation = static_cast<Activation>(number);
        config.positions = static_cast<nn::PositionKind>(number);
        config.norm = static_cast<nn::NormPlacement>(number);
        Transformer{config};
      });
    }
  }
  EXPECT_FALSE(set_field(*std::make_unique<TransformerConfig>(), "", "1"));
  THROWS("preset", preset(""));
}

TEST(MisusedConfigurations, EveryFieldOfAShape) {
  for (const auto& [name, value] : fields(ModelShape())) {
    for (const char* const text : {"", "-1", "0", "1", "3", "2147483648", "9223372036854775807",
                                   "-9223372036854775808", "1e300", "nan", "\xFF"}) {
      ModelShape shape;
      shape.d_model = 8;
      shape.heads = 2;
      shape.d_ff = 8;
      shape.layers = 1;
      expect_orderly(name, [&] { set_field(shape, name, text); });
      expect_orderly(name, [&] { TextEncoder{bert(shape, 10)}; });
      expect_orderly(name, [&] { LanguageModel{gpt2(shape, 10, -1, -1)}; });
      expect_orderly(name, [&] { LanguageModel{llama(shape, 10, 1, INT_MAX)}; });
      expect_orderly(name, [&] { ImageEncoder{vit(shape, 3, 8, 4, {"a"})}; });
    }
  }
  THROWS("preset", shape_preset("huge"));
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kHuge, kLowest}) {
    const ModelShape shape = shape_preset("tiny");
    expect_orderly("vocabulary", [&] { TextEncoder{bert(shape, number)}; });
    expect_orderly("vocabulary", [&] { LanguageModel{llama(shape, number, 1, 1)}; });
    expect_orderly("channels", [&] { ImageEncoder{vit(shape, number, 8, 4, {})}; });
    expect_orderly("side", [&] { ImageEncoder{vit(shape, 3, number, 4, {})}; });
    expect_orderly("patch", [&] { ImageEncoder{vit(shape, 3, 8, number, {})}; });
  }
}

// Numbers that only the structs have.
TEST(MisusedConfigurations, OfBlocks) {
  const auto language = load_language_model(kModels / "llama")->config();
  const auto encoder = load_text_encoder(kModels / "roberta_texts")->config();
  const auto image = load_image_encoder(kModels / "vit_images")->config();
  for (const int64_t number : {int64_t{0}, int64_t{-1}, int64_t{3}, kHuge, kLowest, int64_t{1} << 40}) {
    const auto try_all = [&](const char* field, const auto& change) {
      LanguageModelConfig a = language;
      change(a.decoder);
      expect_built<LanguageModel>(field, a);
      TextEncoderConfig b = encoder;
      change(b.encoder);
      expect_built<TextEncoder>(field, b);
      ImageEncoderConfig c = image;
      change(c.encoder);
      expect_built<ImageEncoder>(field, c);
    };
    if (number < 0 || number > nn::kMaxLayers) {
      THROWS("layers", nn::alike(number, {}));
    }
    try_all("layers", [&](nn::StackOptions& stack) { stack.layers.resize(number == 3 ? 3 : 0); });
    try_all("d_model", [&](nn::StackOptions& stack) {
      stack.each([&](nn::LayerOptions& layer) { layer.d_model = number; });
    });
    try_all("heads", [&](nn::StackOptions& stack) {
      stack.each([&](nn::LayerOptions& layer) { layer.heads = number; });
    });
    try_all("key_heads", [&](nn::StackOptions& stack) {
      stack.each([&](nn::LayerOptions& layer) { layer.key_heads = number; });
    });
    try_all("d_k", [&](nn::StackOptions& stack) {
      stack.each([&](nn::LayerOptions& layer) { layer.d_k = number; });
    });
    try_all("d_v", [&](nn::StackOptions& stack) {
      stack.each([&](nn::LayerOptions& layer) { layer.d_v = number; });
    });
    try_all("d_ff", [&](nn::StackOptions& stack) {
      stack.each([&](nn::LayerOptions& layer) { layer.d_ff = number; });
    });
    try_all("window", [&](nn::StackOptions& stack) {
      stack.each([&](nn::LayerOptions& layer) { layer.attention.window = number; });
    });
    TextEncoderConfig config = encoder;
    config.embedding.positions.max_positions = number;
    expect_built<TextEncoder>("max_positions", config);
    config = encoder;
    config.embedding.positions.first_row = number;
    expect_built<TextEncoder>("first_row", config);
    config = encoder;
    config.embedding.positions.pad_id = number;
    expect_built<TextEncoder>("pad_id", config);
    config = encoder;
    config.embedding.token_types = number;
    expect_built<TextEncoder>("token_types", config);
    config = encoder;
    config.embedding.d_model = number;
    expect_built<TextEncoder>("d_model", config);
    config = encoder;
    config.max_positions = number;
    expect_built<TextEncoder>("max_positions", config);
    ImageEncoderConfig pixels = image;
    pixels.height = pixels.width = number;
    expect_built<ImageEncoder>("height", pixels);
  }
  for (const float number : {-1.0f, 1.0f, 2.0f, kNan, kInfinity}) {
    TextEncoderConfig config = encoder;
    config.encoder.layers.back().dropout = number;
    THROWS("dropout", TextEncoder{config});
    config = encoder;
    config.embedding.epsilon = number;
    expect_orderly("epsilon", [&] { TextEncoder{config}; });
  }
  TextEncoderConfig config = encoder;
  config.labels.clear();
  THROWS("labels", TextEncoder{config});
  config = encoder;
  config.pooler = false;
  THROWS("pooler", TextEncoder{config});
  LanguageModelConfig ends = language;
  ends.eos_ids = {INT_MAX};
  THROWS("eos_ids", LanguageModel{ends});
}

TEST(MisusedModels, Folders) {
  const Scratch folder;
  const std::string longest(5000, 'x');
  for (const std::filesystem::path& path :
       {std::filesystem::path(), folder / "none", folder.path(), std::filesystem::path("/dev/null"),
        std::filesystem::path(longest), folder / longest, folder.write("file", "x")}) {
    const std::string what = path.string().substr(0, 60);
    THROWS("", folder_kind(path)) << what;
    THROWS("", family_of(path)) << what;
    THROWS("", load_language_model(path)) << what;
    THROWS("", load_text_encoder(path)) << what;
    THROWS("", load_image_encoder(path)) << what;
    THROWS("", load_transformer(path)) << what;
    THROWS("", load_translation_model(path)) << what;
    THROWS("", verify_weights(path)) << what;
    THROWS("", load_image_processor(path)) << what;
    expect_orderly(what, [&] { load_generation_defaults(path); });
    THROWS("", quantize_folder(path, folder / "out", DType::bf16)) << what;
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  }
  for (const char* const text :
       {"", "null", "[1]", "{", "{}", R"({"model_type": 3})", R"({"model_type": "llama"})",
        R"({"model_type": "marian", "d_model": -1})"}) {
    const auto path = folder.write("config.json", text).parent_path();
    THROWS("config.json", load_language_model(path)) << text;
    THROWS("config.json", load_transformer(path)) << text;
    expect_orderly(text, [&] { load_generation_defaults(path); });
  }
  // Every loader on every kind of folder.
  for (const char* const name : {"gpt2", "bert_base", "vit_images", "t5", "mistral", "llama+f16"}) {
    const auto path = kModels / name;
    if (!std::filesystem::exists(path)) continue;
    for (const DType dtype : {DType::f32, DType::bf16, DType::i8, DType::i32, DType::u8}) {
      const LoadOptions options{.dtype = dtype};
      expect_orderly(name, [&] { load_language_model(path, options); });
      expect_orderly(name, [&] { load_text_encoder(path, options); });
      expect_orderly(name, [&] { load_image_encoder(path, options); });
      expect_orderly(name, [&] { load_transformer(path, options); });
      const Scratch copy;
      expect_orderly(name, [&] { quantize_folder(path, copy / "out", dtype); });
    }
    THROWS("", quantize_folder(path, path, DType::bf16));
  }
}

TEST(MisusedModels, Saving) {
  const Scratch folder;
  const std::string longest(5000, 'x');
  const auto file = folder.write("file", "x");
  const LanguageModel empty(load_language_model(kModels / "llama")->config());
  THROWS("", save_language_model(folder / "a", empty, "llama"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a" / "config.json"));
  const auto language = load_language_model(kModels / "llama");
  for (const char* const family : {"", "lama", "bert", "gpt2", "\xFF"})
    THROWS("", save_language_model(folder / "b", *language, family)) << family;
  for (const std::filesystem::path& path : {std::filesystem::path(), file, folder / longest}) {
    THROWS("", save_language_model(path, *language, "llama")) << path.string().substr(0, 60);
    THROWS("", save_text_encoder(path, *load_text_encoder(kModels / "bert_base"), "bert"))
        << path.string().substr(0, 60);
  }
  const Transformer transformer(small());
  nn::initialise(transformer, 1);
  for (const int number : {-1, 0, INT_MAX, INT_MIN}) {
    expect_orderly("defaults", [&] {
      save_transformer(folder / "c", transformer,
                       {.beam = number, .max_new_tokens = number, .min_new_tokens = number});
    });
  }
}

// Inputs of a model: ids, types, states, hidden states.
TEST(MisusedModels, Inputs) {
  const auto language = load_language_model(kModels / "llama");
  const auto encoder = load_text_encoder(kModels / "bert_pretraining");
  const auto image = load_image_encoder(kModels / "vit_images");
  const Transformer pair(small());
  nn::initialise(pair, 1);
  nn::ForwardContext context;
  const Tensor ids = Tensor::from(std::vector<int32_t>{3, 4, 5}, {3});
  const Offsets one({0, 3});
  const nn::Memory memory = pair.encode({ids, one}, context);
  std::vector<Unfit> unfit = unfit_variants(ids, {});
  for (const int32_t id : {-1, INT_MAX, INT_MIN, 1000})
    unfit.push_back({concat("id ", id), Tensor::from(std::vector<int32_t>{3, id, 5}, {3})});
  for (const Unfit& wrong : unfit) {
    const Ragged bad{wrong.tensor, one};
    THROWS("", (*language)(bad, context)) << wrong.what;
    THROWS("", language->start(bad)) << wrong.what;
    THROWS("", (*encoder)(bad, context)) << wrong.what;
    THROWS("", pair.encode(bad, context)) << wrong.what;
    THROWS("", pair.decode(bad, memory, context)) << wrong.what;
    nn::DecoderState state = pair.start(memory), other = language->start({ids, one});
    expect_orderly(wrong.what, [&] { pair.step(wrong.tensor, state); });
    expect_orderly(wrong.what, [&] { language->step(wrong.tensor, other); });
    // Undefined types mean that all are 0.
    if (wrong.tensor.defined()) {
      THROWS("", (*encoder)({ids, one}, context, wrong.tensor)) << wrong.what;
    }
  }
  const Variable hidden = (*encoder)({ids, one}, context);
  std::vector<Unfit> states = unfit_variants(hidden.value(), {0});
  for (const Unfit& wrong : states) {
    THROWS("", encoder->pooled(wrong.tensor, one)) << wrong.what;
    THROWS("", encoder->masked_language_logits(wrong.tensor)) << wrong.what;
    THROWS("", encoder->next_sentence(wrong.tensor, one)) << wrong.what;
    THROWS("", image->classifier_logits(wrong.tensor, one)) << wrong.what;
    THROWS("", pair.decode({ids, one}, {wrong.tensor, one}, context)) << wrong.what;
  }
  THROWS("", encoder->pooled(hidden, Offsets({0, 3, 9})));
  THROWS("", encoder->pooled(hidden, Offsets({0, 0, 3})));
  const ImageEncoderConfig& sizes = image->config();
  const Tensor pixels = Tensor::zeros({2, sizes.channels, sizes.height, sizes.width});
  states = unfit_variants(pixels, {0});
  for (const Unfit& wrong : states) {
    THROWS("", (*image)(wrong.tensor, context)) << wrong.what;
    expect_orderly(wrong.what, [&] { (*image)(wrong.tensor.slice_rows(0, 0), context); });
    if (wrong.what.find("huge") == std::string::npos)  // whose shape is right, but not its memory
      expect_orderly(wrong.what, [&] { patchify(wrong.tensor, 4); });
  }
  for (const int64_t side : {int64_t{0}, int64_t{-1}, int64_t{5}, kHuge, kLowest})
    THROWS("patchify", patchify(pixels, side));
  // A model without values.
  const LanguageModel empty(language->config());
  THROWS("", empty({ids, one}, context));
  const Transformer no_values(small());
  THROWS("", no_values.encode({ids, one}, context));
}

TEST(MisusedModels, MovedFrom) {
  nn::ForwardContext context;
  const Ragged ids{Tensor::from(std::vector<int32_t>{3, 4, 5}, {3}), Offsets({0, 3})};
  auto language = std::move(*load_language_model(kModels / "llama"));
  auto encoder = std::move(*load_text_encoder(kModels / "bert_pretraining"));
  auto image = std::move(*load_image_encoder(kModels / "vit_images"));
  Transformer pair(small());
  nn::initialise(pair, 1);
  const nn::Memory memory = pair.encode(ids, context);
  const Variable hidden = encoder(ids, context);
  const Tensor pixels =
      Tensor::zeros({1, image.config().channels, image.config().height, image.config().width});
  const auto a = std::move(language);
  const auto b = std::move(encoder);
  const auto c = std::move(image);
  const auto d = std::move(pair);
  // NOLINTBEGIN(bugprone-use-after-move)
  expect_orderly("run", [&] { language(ids, context); });
  expect_orderly("start", [&] { language.start(ids); });
  expect_orderly("run", [&] { encoder(ids, context); });
  expect_orderly("pooled", [&] { encoder.pooled(hidden, ids.offsets); });
  expect_orderly("mask", [&] { encoder.masked_language_logits(hidden); });
  expect_orderly("run", [&] { image(pixels, context); });
  expect_orderly("encode", [&] { pair.encode(ids, context); });
  expect_orderly("decode", [&] { pair.decode(ids, memory, context); });
  expect_orderly("start", [&] { pair.start(memory); });
  const Scratch folder;
  expect_orderly("save", [&] { save_language_model(folder.path(), language, "llama"); });
  expect_orderly("save", [&] { save_text_encoder(folder.path(), encoder, "bert"); });
  expect_orderly("save", [&] { save_image_encoder(folder.path(), image, "vit"); });
  expect_orderly("save", [&] { save_transformer(folder.path(), pair, {}); });
  expect_orderly("visit", [&] { return nn::count_parameters(pair); });
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(b(ids, context).value().rows(), 3) << "the model moved to";
  EXPECT_EQ(d.encode(ids, context).values.value().rows(), 3);
}

TEST(MisusedModels, ImageProcessing) {
  const data::Image good{.height = 2, .width = 3, .pixels = std::vector<uint8_t>(18, 200)}, none,
      few{.height = 2, .width = 3, .pixels = std::vector<uint8_t>(17)},
      flat{.height = 0, .width = 3, .pixels = {}};
  for (const int64_t side : {int64_t{0}, int64_t{-1}, kHuge, kLowest}) {
    THROWS("size", ImageProcessor{{.resize = ImageSize{side, 4}}});
    THROWS("crop_size", ImageProcessor{{.crop = ImageSize{4, side}}});
    THROWS("shortest_edge", ImageProcessor{{.shortest_edge = side}});
    const ImageProcessorConfig config{.resize = ImageSize{4, 4}};
    expect_orderly("sized", [&] { ImageProcessor{config.sized({side, side})}; });
  }
  THROWS("size", ImageProcessorConfig().sized({4, 4}));
  const ImageProcessor edge({.shortest_edge = 4}), fixed({.resize = ImageSize{4, 4}});
  float pixel[1] = {};
  for (const data::Image& image : {none, few, flat}) {
    THROWS("image", edge.resize_and_crop(image));
    THROWS("image", fixed.resize_and_crop(image));
    THROWS("image", fixed.normalize(image, pixel));
    THROWS("image", fixed(std::span(&image, 1)));
  }
  THROWS("images", fixed({}));
  const data::Image both[] = {good, {.height = 3, .width = 2, .pixels = std::vector<uint8_t>(18, 1)}};
  THROWS("images", edge(both));
  for (const char* const json : {"", "[]", "{", R"({"size": -3})", R"({"size": {"height": 1e99}})"})
    THROWS("cat", read_image_processor(json, "cat")) << json;
}

}  // namespace
