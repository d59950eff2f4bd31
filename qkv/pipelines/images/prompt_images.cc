#include "qkv/pipelines/images/prompt_images.h"

#include <algorithm>
#include <cstring>

#include "qkv/base/counted.h"
#include "qkv/base/error.h"
#include "qkv/hub/digest.h"
#include "qkv/tensor/storage.h"

namespace qkv::pipelines {
namespace {

// Of the rows of the last images. A conversation sends its images again with each turn.
constexpr size_t kKeptBytes = size_t{256} << 20;

constexpr const char *kAround = "<fake_token_around_image>", *kWhole = "<global-img>";  // Idefics3's

std::string repeated(const std::string& text, int64_t count) {
  std::string all;
  for (int64_t i = 0; i < count; ++i) all += text;
  return all;
}

int64_t count_of(std::string_view text, std::string_view part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

std::string digest_of(const data::Image& image) {
  std::string bytes = concat(image.height, " x ", image.width, "\n");
  bytes.append(reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size());
  return hub::sha256(bytes);
}

// All bits of the digest are in eight ids.
std::vector<int32_t> ids_of(const std::string& digest, int64_t rows) {
  std::vector<int32_t> ids;
  for (int64_t row = 0; row < rows; ++row) {
    uint32_t word = 0;
    std::memcpy(&word, digest.data() + row % 8 * 4, 4);
    word ^= static_cast<uint32_t>(row / 8) * 0x9E3779B1U;
    ids.push_back(-1 - static_cast<int32_t>(word & 0x7FFFFFFF));
  }
  return ids;
}

std::string token_of(const text::Tokenizer& tokenizer, int32_t id) {
  const auto token = tokenizer.token(id);
  if (!token)
    throw DataError(concat("tokenizer: expected the token ", id, ", which stands for images, found none"));
  return std::string(*token);
}

}  // namespace

PromptImages::PromptImages(models::ImageReading reading, models::TileProcessor processor,
                           text::Tokenizer tokenizer, const models::LanguageModelConfig& language)
    : tower_(std::move(reading.tower)),
      places_(reading.places),
      processor_(std::move(processor)),
      tokenizer_(std::move(tokenizer)),
      max_positions_(language.max_positions),
      image_token_(token_of(tokenizer_, places_.image_id)) {
  placeholder_ = places_.begin_id ? token_of(tokenizer_, *places_.begin_id) : image_token_;
  if (places_.end_id) end_token_ = token_of(tokenizer_, *places_.end_id);
  for (const std::string& around : {places_.before, places_.after}) {
    if (!around.empty() && !tokenizer_.id_of(around))
      throw DataError(
          concat("tokenizer: expected the token ", around, ", which is next to images, found none"));
  }
  const models::ImageEncoderConfig& encoder = tower_->config().encoder;
  const models::ImageSize size = processor_.size();
  if (size != models::ImageSize{encoder.height, encoder.width}) {
    throw DataError(concat("preprocessing: expected images of ", encoder.height, " x ", encoder.width,
                           " pixels, the model's, found ", size.height, " x ", size.width));
  }
  // The attention in both directions has windows on both sides.
  const int64_t rows = tower_->config().rows();
  for (const nn::LayerOptions& layer : language.decoder.layers) {
    if (places_.both_directions && layer.attention.window > 0 && layer.attention.window < rows)
      throw DataError(concat("sliding_window: expected at least the ", rows, " rows of an image, found ",
                             layer.attention.window));
  }
  models::TilePlan expected;
  if (places_.tiles) expected = models::TileOptions();
  if (!places_.before.empty()) expected = models::AspectOptions();
  if (!tower_->config().resolutions.empty()) expected = models::ResolutionOptions();
  if (processor_.plan().index() != expected.index())
    throw DataError(
        "preprocessing: image_processor_type: expected that of the model's family, found another");
  if (processor_.resolutions() != tower_->config().resolutions)
    throw DataError("preprocessing: image_grid_pinpoints: expected the model's, found others");
}

EncodedImageHandle PromptImages::encode(const data::Image& image) const {
  const std::string digest = digest_of(image);
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(last_, digest, &std::pair<std::string, EncodedImageHandle>::first);
    if (found != last_.end()) {
      last_.splice(last_.begin(), last_, found);
      return found->second;
    }
  }
  const models::ImageTiles tiles = processor_(image);
  const int64_t count = tiles.pixels.dim(0), each = tower_->config().rows();
  const std::vector<int32_t> order =
      tower_->row_order(tiles.rows, tiles.columns, {image.height, image.width});
  const int64_t rows = order.empty() ? count * each : std::ssize(order);
  if (rows > max_positions_) {
    throw DataError(concat("image: expected one that takes at most the ", max_positions_,
                           " positions of the model, found ", rows));
  }
  EncodedImage encoded{
      .grid_rows = tiles.rows, .grid_columns = tiles.columns, .rows = {}, .ids = ids_of(digest, rows)};
  const InferenceMemory inference;
  Tensor all;
  for (int64_t i = 0; i < count; ++i) {
    const Tensor tile = (*tower_)(tiles.pixels.slice_rows(i, 1));
    if (i == 0) all = Tensor::empty({count * each, tile.cols()}, DType::f32, tile.device());
    all.slice_rows(i * each, each).copy_from(tile);
  }
  encoded.rows = tower_->in_order(all, order);
  auto handle = std::make_shared<const EncodedImage>(std::move(encoded));
  const std::lock_guard lock(mutex_);
  last_.emplace_front(digest, handle);
  size_t bytes = 0;
  const auto too_many = std::ranges::find_if(last_, [&](const auto& one) {
    bytes += one.second->rows.bytes();
    return bytes > kKeptBytes;
  });
  last_.erase(too_many, last_.end());
  return handle;
}

// The text in the place of the placeholder.
std::string PromptImages::shown(const EncodedImage& image) const {
  if (!places_.begin_id && !places_.tiles)
    return concat(places_.before, repeated(image_token_, image.rows.rows()), places_.after);
  const std::string tile = repeated(image_token_, tower_->config().rows());
  if (places_.begin_id) return concat("\n\n", placeholder_, tile, end_token_, "\n\n");
  std::string text;
  for (int64_t row = 1; row <= image.grid_rows; ++row) {
    for (int64_t column = 1; column <= image.grid_columns; ++column)
      text += concat(kAround, "<row_", row, "_col_", column, ">", tile);
    text += '\n';
  }
  return concat(text, image.grid_rows > 0 ? "\n" : "", kAround, kWhole, tile, kAround);
}

PromptIds PromptImages::prompt(const std::string& text, std::span<const EncodedImageHandle> images,
                               bool special_tokens) const {
  if (const int64_t found = count_of(text, placeholder_); found != std::ssize(images)) {
    throw DataError(concat("prompt: expected ", placeholder_, " for each of ",
                           counted(std::ssize(images), "images"), ", found it ", counted(found, "times")));
  }
  std::string all;
  size_t from = 0;
  int64_t rows = 0, width = 0;
  for (const EncodedImageHandle& image : images) {
    const size_t at = text.find(placeholder_, from);
    all += text.substr(from, at - from) + shown(*image);
    from = at + placeholder_.size();
    rows += image->rows.rows();
    width = image->rows.cols();
  }
  all += text.substr(from);
  text::EncodeOptions options;
  options.special_tokens = special_tokens;
  PromptIds prompt{tokenizer_.encode(all, options).ids};
  if (images.empty()) return prompt;
  if (const int64_t found = std::ranges::count(prompt.ids, places_.image_id); found != rows) {
    throw DataError(concat("prompt: expected ", image_token_, " only where images are, ", rows,
                           " times, found it ", counted(found, "times")));
  }
  prompt.rows = {.values = Tensor::empty({rows, width}, DType::f32, images.front()->rows.device()),
                 .both_directions = places_.both_directions};
  auto place = prompt.ids.begin();
  int64_t row = 0;
  for (const EncodedImageHandle& image : images) {
    prompt.rows.values.slice_rows(row, image->rows.rows()).copy_from(image->rows);
    row += image->rows.rows();
    for (const int32_t id : image->ids) {
      place = std::find(place, prompt.ids.end(), places_.image_id);
      *place++ = id;
    }
  }
  return prompt;
}

std::shared_ptr<const PromptImages> load_prompt_images(const std::filesystem::path& folder,
                                                       const models::LanguageModelConfig& config,
                                                       const text::Tokenizer& tokenizer,
                                                       const models::LoadOptions& options) {
  auto reading = models::load_image_reading(folder, config.embedding.d_model, options);
  if (!reading) return nullptr;
  models::TileProcessor processor = models::load_tile_processor(folder);
  try {
    return std::make_shared<const PromptImages>(std::move(*reading), std::move(processor), tokenizer, config);
  } catch (const DataError& error) {
    throw DataError(concat(folder.string(), ": ", error.what()));
  }
}

}  // namespace qkv::pipelines
