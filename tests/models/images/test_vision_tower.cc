// Tiles of images, and the refusal of configurations; results are compared by tests/apps/test_hub_folders.cc.

#include "qkv/models/vision_tower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/image_tiles.h"
#include "tests/support/failures.h"
#include "tests/support/scratch.h"

namespace qkv::testing {
namespace {

using namespace qkv::models;
using nlohmann::json;

namespace fs = std::filesystem;

const fs::path kHubFolders = QKV_TEST_DATA "/apps/golden/hub";
constexpr const char *kLlavaNext = "llava-v1.6-mistral-7b-hf", *kInternVl = "InternVL3-1B-hf";

// A hub folder with modified configurations.
class VisionFolder {
 public:
  explicit VisionFolder(const std::string& name) {
    fs::copy(kHubFolders / name, folder_.path(), fs::copy_options::recursive);
  }
  void change(const char* file, const json& by) const {
    json config = json::parse(read_file(folder_ / file));
    config.merge_patch(by);
    folder_.write(file, config.dump());
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  Scratch folder_;
};

struct Grid {
  int64_t rows, columns, tiles;
  bool operator==(const Grid&) const = default;
};

Grid grid_of(const TileProcessor& processor, int64_t height, int64_t width) {
  data::Image image{.height = height, .width = width, .pixels = {}};
  image.pixels.resize(static_cast<size_t>(3 * height * width), 128);
  const ImageTiles tiles = processor(image);
  return {tiles.rows, tiles.columns, tiles.pixels.dim(0)};
}

TEST(ImageTiles, FollowTheAspectRatio) {
  const TileProcessor llava = load_tile_processor(kHubFolders / kLlavaNext);
  EXPECT_EQ(grid_of(llava, 24, 24), (Grid{1, 2, 3}));  // of equal ones the first
  EXPECT_EQ(grid_of(llava, 40, 50), (Grid{2, 2, 5}));
  EXPECT_EQ(grid_of(llava, 90, 30), (Grid{3, 1, 4}));
  const TileProcessor internvl = load_tile_processor(kHubFolders / kInternVl);
  EXPECT_EQ(grid_of(internvl, 20, 20), (Grid{0, 0, 1}));
  EXPECT_EQ(grid_of(internvl, 60, 60), (Grid{3, 3, 10}));
  EXPECT_EQ(grid_of(internvl, 20, 60), (Grid{1, 3, 4}));
}

TEST(ImageTiles, AreFewForEveryAspectRatio) {
  const TileProcessor llava = load_tile_processor(kHubFolders / kLlavaNext);
  EXPECT_EQ(grid_of(llava, 1, 16000), (Grid{1, 2, 3}));
  EXPECT_EQ(grid_of(llava, 16000, 1), (Grid{1, 2, 3}));
  const TileProcessor internvl = load_tile_processor(kHubFolders / kInternVl);
  EXPECT_EQ(grid_of(internvl, 1, 16000), (Grid{1, 12, 13}));
  EXPECT_EQ(grid_of(internvl, 16000, 1), (Grid{12, 1, 13}));
}

TEST(ImageTiles, WrongFieldsAreNamed) {
  const auto expect_refused = [](const char* name, const json& change, const char* field) {
    const VisionFolder folder(name);
    folder.change("preprocessor_config.json", change);
    const std::string message = message_of<DataError>([&] { load_tile_processor(folder.path()); });
    expect_parts(message, {"preprocessor_config.json", field});
  };
  constexpr const char* kSizes = "image_grid_pinpoints";
  for (const json& sizes :
       {json::array({{24, 25}}), json::array({{24 * 65, 24}}), json::array({{24 * 9, 24 * 8}}),
        json::array({{24}}), json::array({{-24, 24}}), json::array({{1e9, 24}}), json::array(),
        json("24 x 24"), json(std::vector<json>(1001, json::array({24, 24})))}) {
    expect_refused(kLlavaNext, {{kSizes, sizes}}, kSizes);
  }
  expect_refused(kLlavaNext, {{"do_center_crop", false}}, "do_center_crop");
  expect_refused(kLlavaNext, {{"wings", 2}}, "wings");
  for (const json& counts : {json{{"max_patches", 65}}, json{{"max_patches", 0}}, json{{"min_patches", 13}},
                             json{{"min_patches", 0}}})
    expect_refused(kInternVl, counts, "max_patches");
  expect_refused(kInternVl, {{"size", {{"width", 48}}}}, "size");
  expect_refused(kInternVl, {{"do_resize", false}}, "do_resize");
}

TEST(VisionTower, WrongFieldsAreNamed) {
  const auto expect_refused = [](const char* name, const json& change, const std::string& field) {
    const VisionFolder folder(name);
    folder.change("config.json", change);
    const std::string message = message_of<DataError>([&] { load_image_reading(folder.path(), 16); });
    expect_parts(message, {"config.json", field});
  };
  const std::vector<std::pair<std::string, json>> of_llava{
      {"vision_feature_layer", 4},         {"vision_feature_select_strategy", "full"},
      {"projector_hidden_act", "wings"},   {"use_image_newline_parameter", false},
      {"image_grid_pinpoints", "24 x 24"}, {"image_token_index", -1}};
  for (const auto& [field, value] : of_llava) expect_refused(kLlavaNext, {{field, value}}, field);
  const std::vector<std::pair<std::string, json>> of_internvl{{"vision_feature_layer", -3},
                                                              {"vision_feature_select_strategy", "full"},
                                                              {"projector_hidden_act", "wings"},
                                                              {"downsample_ratio", 0.25},
                                                              {"image_token_id", -1}};
  for (const auto& [field, value] : of_internvl) expect_refused(kInternVl, {{field, value}}, field);
  const std::vector<std::pair<std::string, json>> of_encoder{{"norm_type", "wings"},
                                                             {"use_qk_norm", true},
                                                             {"use_absolute_position_embeddings", false},
                                                             {"image_size", json::array({24, 28})},
                                                             {"patch_size", 0},
                                                             {"model_type", "wings"},
                                                             {"wings", 2}};
  for (const auto& [field, value] : of_encoder)
    expect_refused(kInternVl, {{"vision_config", {{field, value}}}}, field == "patch_size" ? "patch" : field);
}

// transformers 5 names modules as its classes do.
TEST(VisionTower, ReadsBothNamesOfTensors) {
  for (const char* name : {kLlavaNext, kInternVl}) {
    const VisionFolder folder(name);
    std::vector<io::NamedTensor> tensors;
    {
      const io::SafetensorsFile file(folder.path() / "model.safetensors");
      for (const std::string& old : file.names()) {
        std::string today = old.starts_with("language_model.") ? old : "model." + old;
        if (const size_t at = today.find(".vision_model."); at != today.npos) today.erase(at, 13);
        tensors.push_back({today, file.tensor(old).clone()});
      }
    }
    io::write_safetensors(folder.path() / "model.safetensors", tensors);
    const Tensor pixels = Tensor::full({1, 3, 24, 24}, 0.5f);
    const Tensor expected = (*load_image_reading(kHubFolders / name, 16)->tower)(pixels),
                 found = (*load_image_reading(folder.path(), 16)->tower)(pixels);
    EXPECT_TRUE(std::ranges::equal(found.values(), expected.values())) << name;
  }
}

}  // namespace
}  // namespace qkv::testing
