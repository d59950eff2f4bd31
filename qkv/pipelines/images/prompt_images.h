#pragma once
// Images in the prompts of language models that have a vision tower (models/vision_tower.h).

#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/data/image.h"
#include "qkv/models/image_tiles.h"
#include "qkv/models/language_model.h"
#include "qkv/models/vision_tower.h"
#include "qkv/text/tokenizer.h"

namespace qkv::pipelines {

// An image as the language model reads it.
struct EncodedImage {
  int64_t grid_rows = 0, grid_columns = 0;  // of tiles; 0: one tile
  Tensor rows;                              // f32 [rows, d_model]
  // Of the rows, below 0: a digest of the image, so that the prefix cache tells images apart.
  std::vector<int32_t> ids = {};
};
using EncodedImageHandle = std::shared_ptr<const EncodedImage>;

struct PromptIds {
  std::vector<int32_t> ids;
  models::EmbeddedRows rows = {};  // of the ids below 0
};

// Const: safe to use from several threads.
class PromptImages {
 public:
  // Throws DataError if tower, preprocessing, tokenizer and language model do not fit together.
  PromptImages(models::ImageReading reading, models::TileProcessor processor, text::Tokenizer tokenizer,
               const models::LanguageModelConfig& language);

  // The text that stands for an image in a prompt ("<image>").
  const std::string& placeholder() const { return placeholder_; }
  // Images that a prompt has room for.
  int64_t most_images() const { return max_positions_ / (tower_->config().rows() + 1); }

  // Encodes an image, or finds it among the last ones. Throws DataError for an image that takes more than the
  // model's positions.
  EncodedImageHandle encode(const data::Image& image) const;

  // The prompt of a text with a placeholder for each image. special_tokens: whether the tokenizer adds those
  // that it adds to every text. Throws DataError for another number of placeholders and for image tokens in
  // the text.
  PromptIds prompt(const std::string& text, std::span<const EncodedImageHandle> images,
                   bool special_tokens) const;

 private:
  std::string shown(const EncodedImage& image) const;

  std::shared_ptr<const models::VisionTower> tower_;
  models::ImagePlaces places_;
  models::TileProcessor processor_;
  text::Tokenizer tokenizer_;
  int64_t max_positions_;
  std::string placeholder_, image_token_, end_token_;

  // The last images, the most recently used first, by their digests.
  mutable std::mutex mutex_;
  mutable std::list<std::pair<std::string, EncodedImageHandle>> last_;
};

// Those of a folder; null for a language model without a vision tower. Throws the errors of
// models::load_image_reading() and models::load_tile_processor(), and those of the constructor.
std::shared_ptr<const PromptImages> load_prompt_images(const std::filesystem::path& folder,
                                                       const models::LanguageModelConfig& config,
                                                       const text::Tokenizer& tokenizer,
                                                       const models::LoadOptions& options = {});

}  // namespace qkv::pipelines
