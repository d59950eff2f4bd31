#pragma once
// The part of a language model that reads images: an image encoder, whose patches become rows in the place of
// tokens' embeddings (LLaVA, Liu et al. 2023; LLaVA-NeXT, Liu et al. 2024; Idefics3, Laurençon et al. 2024;
// Gemma 3, Gemma Team 2025).

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/models/hub/load_options.h"
#include "qkv/models/image_encoder.h"
#include "qkv/models/language_model.h"

namespace qkv::models {

// How a square of neighbouring patches becomes one row.
enum class PatchMerge : uint8_t {
  concatenated,  // their features side by side, row by row (pixel shuffle)
  averaged,
};

struct VisionTowerConfig {
  ImageEncoderConfig encoder = {};  // with the layers that are used, without heads
  bool drops_class_token = false;   // of patches
  PatchMerge merge = PatchMerge::concatenated;
  int64_t merge_side = 1;  // of the square, in patches
  // The projector: an optional norm, then one linear layer to d_model, or two with an activation between.
  bool norm = false;
  nn::NormKind norm_kind = nn::NormKind::rms;
  float epsilon = 1e-6f;
  std::optional<Activation> activation = {};
  bool bias = true;
  int64_t d_model = 0;  // of the language model
  // Sizes of images of several tiles. If there are any, tiles lose the rows of their padding, and a learned
  // row ends each row of patches (LLaVA-NeXT, Liu et al. 2024).
  std::vector<ImageSize> resolutions = {};

  // Rows of a tile.
  int64_t rows() const;
  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// Const once its parameters have values, like LanguageModel.
class VisionTower {
 public:
  explicit VisionTower(const VisionTowerConfig& config);

  const VisionTowerConfig& config() const { return config_; }

  // pixels f32 [images, channels, height, width], preprocessed -> f32 [images * rows(), d_model], on the
  // model's device. Throws ShapeError for images of another size. Inference only.
  Tensor operator()(const Tensor& pixels) const;

  // The rows of an image of this size, among those of its tiles (those of a grid, row by row, then the whole
  // image); the number of these stands for the learned row. Empty: all, in their order.
  std::vector<int32_t> row_order(int64_t grid_rows, int64_t grid_columns, ImageSize image) const;
  // f32 [rows of all tiles, d_model] -> [rows of the image, d_model].
  Tensor in_order(const Tensor& rows, const std::vector<int32_t>& order) const;

  // "encoder.patches.weight", "projector.linear_1.weight", "projector.newline".
  void visit(const nn::ParameterVisitor& visitor) const;
  const ImageEncoder& encoder() const { return encoder_; }
  void visit_projector(const nn::ParameterVisitor& visitor) const;

 private:
  Variable merged(const Variable& hidden, int64_t images) const;

  VisionTowerConfig config_;
  ImageEncoder encoder_;
  std::optional<nn::Norm> norm_;
  nn::Linear linear_1_;
  std::optional<nn::Linear> linear_2_;
  nn::Parameter newline_;  // [d_model]; undefined: none
};

// How a prompt shows images.
struct ImagePlaces {
  int32_t image_id = 0;  // the token in whose places the rows are
  // The tokens around them, the first of which stands for an image in a prompt's text (Gemma 3); otherwise
  // the image token does.
  std::optional<int32_t> begin_id = {}, end_id = {};
  std::string before = {}, after = {};  // tokens around the rows of an image's tiles (InternVL)
  bool tiles = false;                   // several rows of a grid, each with tokens of its own (Idefics3)
  bool both_directions = false;         // EmbeddedRows::both_directions
};

struct ImageReading {
  std::shared_ptr<const VisionTower> tower;
  ImagePlaces places;
};

// Whether the next function loads the vision towers of a model_type: "llava", "llava_next", "gemma3",
// "idefics3", "smolvlm", "internvl".
bool reads_images(std::string_view model_type);

// The part of a language model's folder that reads images; d_model: the language model's. Nothing for other
// families. Throws the errors of load_image_encoder().
std::optional<ImageReading> load_image_reading(const std::filesystem::path& folder, int64_t d_model,
                                               const LoadOptions& options = {});

// save_language_model() for a model of such a folder: writes it with the original's tensors of images, those
// of 16 or 32 bits in the weights' dtype if that is f32, bf16 or f16.
void save_with_images(const std::filesystem::path& folder, const LanguageModel& model,
                      std::string_view model_type, const std::filesystem::path& original);

}  // namespace qkv::models
