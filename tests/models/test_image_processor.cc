// Preprocessing, compared with transformers' Pillow processors (tests/golden/images.py).

#include "qkv/models/image_processor.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "tests/support/golden.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

const std::filesystem::path kData = QKV_TEST_DATA;

class ImageProcessors : public ::testing::TestWithParam<std::string> {};

TEST_P(ImageProcessors, MatchTransformers) {
  const auto path = kData / "models" / "golden" / "images" / (GetParam() + ".json");
  const ImageProcessor processor(read_image_processor(read_file(path), path.string()));
  const data::Image image = data::read_image(kData / "data" / "golden" / "images" / "rgb.png");
  const Golden golden((path.parent_path() / "expected.safetensors").string());
  const Tensor expected = golden[GetParam()], found = processor(std::span(&image, 1));
  ASSERT_EQ(found.shape(), expected.shape());
  EXPECT_TRUE(std::ranges::equal(found.values(), expected.values()));  // bit for bit
}

INSTANTIATE_TEST_SUITE_P(Cases, ImageProcessors,
                         ::testing::Values("defaults", "bicubic", "shortest_edge", "deit", "crop_outside",
                                           "unscaled", "as_it_is"));

ImageProcessorConfig read(const std::string& json) { return read_image_processor(json, "p.json"); }

TEST(ImageProcessorConfig, ReadsOlderFiles) {
  const ImageProcessorConfig old = read(R"({"feature_extractor_type": "ViTFeatureExtractor", "size": 384})");
  EXPECT_EQ(old.resize, (ImageSize{384, 384}));
  EXPECT_EQ(old.resampling, data::Resampling::bilinear);
  EXPECT_FALSE(old.crop);
  EXPECT_EQ(old.mean[2], 0.5f);
  const ImageProcessorConfig deit = read(R"({"image_processor_type": "DeiTImageProcessor"})");
  EXPECT_EQ(deit.resize, (ImageSize{256, 256}));
  EXPECT_EQ(deit.crop, (ImageSize{224, 224}));
  EXPECT_EQ(deit.resampling, data::Resampling::bicubic);
  EXPECT_EQ(read(R"({"size": [10, 20]})").resize, (ImageSize{10, 20}));
  EXPECT_FALSE(read(R"({"do_resize": false, "do_rescale": false})").size());
}

TEST(ImageProcessorConfig, AdaptsToAnotherSize) {
  const ImageProcessorConfig deit =
      read(R"({"image_processor_type": "DeiTImageProcessor", "size": {"shortest_edge": 256}})");
  const ImageProcessorConfig large = deit.sized({448, 448});
  EXPECT_EQ(large.shortest_edge, 512);
  EXPECT_EQ(large.crop, (ImageSize{448, 448}));
  EXPECT_EQ(read("{}").sized({32, 48}).size(), (ImageSize{32, 48}));
  EXPECT_THROW(read(R"({"do_resize": false})").sized({32, 48}), UsageError);
}

TEST(ImageProcessor, ReportsTheRemainingRegion) {
  const auto region = [](const ImageProcessorConfig& config) {
    return ImageProcessor(config).region({.height = 100, .width = 200});
  };
  // 100 x 200 becomes 50 x 100; rows 5 to 45 and columns 30 to 70 remain.
  const ImageRegion part = region({.shortest_edge = 50, .crop = ImageSize{40, 40}});
  EXPECT_DOUBLE_EQ(part.top, 0.1);
  EXPECT_DOUBLE_EQ(part.left, 0.3);
  EXPECT_DOUBLE_EQ(part.height, 0.8);
  EXPECT_DOUBLE_EQ(part.width, 0.4);
  // 61 rows of 50: 6 of padding above, 5 below.
  const ImageRegion padded = region({.shortest_edge = 50, .crop = ImageSize{61, 100}});
  EXPECT_DOUBLE_EQ(padded.top, -0.12);
  EXPECT_DOUBLE_EQ(padded.height, 1.22);
  EXPECT_DOUBLE_EQ(padded.width, 1);
  const ImageRegion whole = region({.resize = ImageSize{30, 40}});
  EXPECT_EQ(whole.top, 0);
  EXPECT_EQ(whole.width, 1);
  EXPECT_THROW(ImageProcessor({}).region({.height = 0, .width = 1}), UsageError);
}

TEST(ImageProcessorConfig, RejectsUnsupportedSettingsByName) {
  const auto refused = [](const std::string& json) { return message_of<DataError>([&] { read(json); }); };
  for (const auto& [json, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"image_processor_type": "LlavaNextImageProcessor"})",
            "p.json: image_processor_type: expected "},
           {R"({"crop_pct": 0.9})", "p.json: crop_pct: unknown field"},
           {R"({"do_pad": true})", "p.json: do_pad: expected "},
           {R"({"size": {"shortest_edge": 224, "longest_edge": 500}})",
            "p.json: size.longest_edge: unknown field"},
           {R"({"size": {"max_height": 224, "max_width": 224}})", "p.json: size.height: expected "},
           {R"({"size": 0})", "p.json: size: expected "},
           {R"({"size": {"height": 224, "width": 20000}})", "size"},
           {R"({"size": [1, 2, 3]})", "p.json: size: expected "},
           {R"({"size": "big"})", "p.json: size: expected "},
           {R"({"resample": 6})", "p.json: resample: expected "},
           {R"({"image_mean": [0.5, 0.5]})", "p.json: image_mean: expected "},
           {R"({"image_std": [0.5, 0, 0.5]})", "image_std"},
           {R"({"do_normalize": 1})", "p.json: do_normalize: expected "},
           {R"([1])", "p.json: expected an object, found [1]"},
           {R"({)", "JSON"}}) {
    const std::string message = refused(json);
    EXPECT_NE(message.find("p.json"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  const Scratch empty;
  EXPECT_NE(message_of<IoError>([&] { load_image_processor(empty.path()); }).find("preprocessor_config.json"),
            std::string::npos);
}

TEST(ImageProcessor, RejectsImagesOfVaryingSizes) {
  const ImageProcessor processor(read(R"({"do_resize": false})"));
  const std::vector<data::Image> images{{.height = 1, .width = 2, .pixels = {1, 2, 3, 4, 5, 6}},
                                        {.height = 2, .width = 1, .pixels = {1, 2, 3, 4, 5, 6}}};
  EXPECT_THROW(processor(images), UsageError);
  EXPECT_EQ(processor(std::span(images).first(1)).shape(), (Shape{1, 3, 1, 2}));
}

TEST(ImageProcessor, GreyModelsReadGreyImages) {
  const ImageProcessorConfig config{
      .channels = 1, .resize = ImageSize{2, 1}, .mean = {0.25f, 9, 9}, .deviation = {0.5f, 9, 9}};
  const ImageProcessor processor(config);
  // The greys by Pillow's convert("L"): 76 of red, 150 of green.
  const data::Image image{.height = 2, .width = 1, .pixels = {255, 0, 0, 0, 255, 0}};
  const Tensor found = processor(std::span(&image, 1));
  ASSERT_EQ(found.shape(), (Shape{1, 1, 2, 1}));
  EXPECT_FLOAT_EQ(found.values()[0], (76 / 255.0f - 0.25f) / 0.5f);
  EXPECT_FLOAT_EQ(found.values()[1], (150 / 255.0f - 0.25f) / 0.5f);
  EXPECT_EQ(found.values()[1], processor.values(0)[150]);
  // Grey before resizing, as images of a grey training set are.
  const data::Image shown = processor.resize_and_crop(image);
  EXPECT_EQ(shown.pixels, (std::vector<uint8_t>{76, 76, 76, 150, 150, 150}));
}

TEST(ImageProcessorConfig, RoundTrips) {
  const ImageProcessorConfig colour{.resize = ImageSize{30, 20},
                                    .resampling = data::Resampling::bicubic,
                                    .mean = {0.1f, 0.2f, 0.3f},
                                    .deviation = {0.4f, 0.5f, 0.6f}};
  const ImageProcessorConfig read_back = read(image_processor_json(colour));
  EXPECT_EQ(read_back.resize, colour.resize);
  EXPECT_EQ(read_back.crop, std::nullopt);
  EXPECT_EQ(read_back.resampling, colour.resampling);
  EXPECT_EQ(read_back.scale, colour.scale);
  EXPECT_EQ(read_back.mean, colour.mean);
  EXPECT_EQ(read_back.deviation, colour.deviation);
  ImageProcessorConfig grey = colour;
  grey.channels = 1;
  const std::string json = image_processor_json(grey);
  EXPECT_NE(json.find("\"image_mean\": [\n    0.1\n  ]"), std::string::npos) << json;
  EXPECT_EQ(read(json).mean[0], 0.1f);
  EXPECT_THROW(image_processor_json({.crop = ImageSize{2, 2}}), UsageError);
}

}  // namespace
