// Vision towers of language models, and the tiles that they read. That results are transformers' is
// tests/apps/test_hub_folders.cc.

#include "qkv/models/vision_tower.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/hub/read_config.h"
#include "qkv/models/image_tiles.h"
#include "tests/models/folder_copy.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;
using nlohmann::json;

const std::filesystem::path kData = QKV_TEST_DATA, kHub = kData / "apps/golden/hub";

// A folder with another config.json, preprocessor_config.json or both.
class Towers : public ::testing::Test {
 protected:
  void copy(const std::string& name) {
    std::filesystem::remove_all(scratch_ / "model");
    std::filesystem::copy(kHub / name, scratch_ / "model");
  }
  void change(const std::string& file, const json& patch) {
    json value = json::parse(read_file(scratch_ / "model" / file));
    value.merge_patch(patch);
    write_file_atomically(scratch_ / "model" / file, value.dump());
  }
  std::string refusal(const std::string& name, const json& patch) {
    copy(name);
    change("config.json", patch);
    return message_of<DataError>([&] { load_image_reading(scratch_ / "model", 16); });
  }
  std::string refused_processor(const std::string& name, const json& patch) {
    copy(name);
    change("preprocessor_config.json", patch);
    return message_of<DataError>([&] { load_tile_processor(scratch_ / "model"); });
  }
  Scratch scratch_;
};

TEST_F(Towers, HaveTheRowsOfTheirPrompts) {
  EXPECT_EQ(load_image_reading(kHub / "llava-1.5-7b-hf", 16)->tower->config().rows(), 9);
  const ImageReading gemma = *load_image_reading(kHub / "gemma-3-4b-it", 16);
  EXPECT_EQ(gemma.tower->config().rows(), 9);
  EXPECT_TRUE(gemma.places.both_directions);
  const ImageReading smol = *load_image_reading(kHub / "SmolVLM-256M-Instruct", 16);
  EXPECT_EQ(smol.tower->config().rows(), 9);
  EXPECT_TRUE(smol.places.tiles);
  EXPECT_FALSE(load_image_reading(kHub / "gpt2", 16));
  EXPECT_FALSE(reads_images("qwen2_vl"));
}

TEST_F(Towers, RefuseWhatTheyDoNotCompute) {
  const std::string llava = "llava-1.5-7b-hf", gemma = "gemma-3-4b-it", smol = "SmolVLM-256M-Instruct";
  expect_parts(refusal(llava, {{"vision_feature_layer", -5}}),
               {"config.json: vision_feature_layer", "3 layers", "-5"});
  expect_parts(refusal(llava, {{"vision_feature_layer", {-2, -1}}}), {"vision_feature_layer", "integer"});
  expect_parts(refusal(llava, {{"vision_feature_select_strategy", "cls"}}),
               {"vision_feature_select_strategy", "full"});
  expect_parts(refusal(llava, {{"projector_hidden_act", "swoosh"}}), {"projector_hidden_act", "swoosh"});
  expect_parts(refusal(llava, {{"image_token_index", -1}}), {"image_token_index", "-1"});
  expect_parts(
      refusal(llava, {{"vision_config", {{"model_type", "pixtral"}}}}),
      {"vision_config: model_type", "clip_vision_model, siglip_vision_model or internvl_vision", "pixtral"});
  expect_parts(refusal(llava, {{"vision_config", {{"rope_theta", 1}}}}),
               {"vision_config: rope_theta", "unknown"});
  expect_parts(refusal(gemma, {{"mm_tokens_per_image", 10}}), {"mm_tokens_per_image", "6 patches", "10"});
  expect_parts(refusal(gemma, {{"mm_tokens_per_image", 16}}), {"mm_tokens_per_image", "6 patches", "16"});
  expect_parts(refusal(smol, {{"scale_factor", 4}}), {"merge_side", "6 x 6 patches", "4"});
  expect_parts(refusal(smol, {{"scale_factor", 0}}), {"merge_side", "at least 1", "0"});
  expect_parts(refusal(smol, {{"vision_config", {{"image_size", 32}}}}),
               {"position_embedding.weight", "[64, 16]"});
}

TEST_F(Towers, RefuseOtherPreprocessing) {
  const std::string gemma = "gemma-3-4b-it", smol = "SmolVLM-256M-Instruct", llava = "llava-1.5-7b-hf";
  expect_parts(refused_processor(gemma, {{"do_pan_and_scan", true}}), {"do_pan_and_scan", "false"});
  expect_parts(refused_processor(smol, {{"max_image_size", {{"longest_edge", 1}}}}),
               {"max_image_size", "2 to 4096", "1"});
  expect_parts(refused_processor(smol, {{"size", {{"longest_edge", 5000}}}}),
               {"size: longest_edge", "4096", "5000"});
  expect_parts(refused_processor(smol, {{"max_image_size", 24}}), {"max_image_size", "longest_edge"});
  expect_parts(refused_processor(llava, {{"do_pad", true}}), {"do_pad", "false"});
  expect_parts(refused_processor(llava, {{"do_center_crop", false}}),
               {"size", "does not depend on the image"});
}

TEST(ImageTiles, AreTransformersGrids) {
  const auto path = kData / "models/golden/images/tile_grids.json";
  for (const json& row : json::parse(read_file(path))) {
    const int64_t edge = row[0], side = row[1], height = row[2], width = row[3];
    const TileProcessor processor({.resize = ImageSize{side, side}, .resampling = data::Resampling::lanczos},
                                  TileOptions{.longest_edge = edge, .side = side});
    const data::Image image{height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * 3), 7)};
    const ImageTiles found = processor(image);
    EXPECT_EQ(found.rows, row[4].get<int64_t>()) << row;
    EXPECT_EQ(found.columns, row[5].get<int64_t>()) << row;
    EXPECT_EQ(found.pixels.shape(), (Shape{found.rows * found.columns + 1, 3, side, side}));
  }
}

// An image of the sides of a tile is not cut, and one that is not split is one tile.
TEST(ImageTiles, OneTileIsTheWholeImage) {
  const ImageProcessorConfig each{.resize = ImageSize{20, 20}, .resampling = data::Resampling::lanczos};
  const data::Image image{30, 50, std::vector<uint8_t>(30 * 50 * 3, 7)};
  for (const TileOptions& options : {TileOptions{.longest_edge = 20, .side = 20},
                                     TileOptions{.longest_edge = 80, .side = 20, .split = false}}) {
    const ImageTiles found = TileProcessor(each, options)(image);
    EXPECT_EQ(found.rows, 0);
    EXPECT_EQ(found.pixels.shape(), (Shape{1, 3, 20, 20}));
  }
}

}  // namespace
