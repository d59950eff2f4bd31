#include "qkv/pipelines/images/images.h"

#include "qkv/base/error.h"
#include "qkv/pipelines/row_results.h"

namespace qkv::pipelines {

ImageClassifier::ImageClassifier(std::shared_ptr<const LoadedImageEncoder> encoder,
                                 const ImageEncoderOptions& options)
    : ImageEncoderPipeline(std::move(encoder), options) {
  require_head(!model().config().labels.empty(), this->encoder()->folder, "an image classification");
}

ImageClassifier::ImageClassifier(const std::filesystem::path& folder, const ImageEncoderOptions& options,
                                 const models::LoadOptions& load)
    : ImageClassifier(open_image_encoder(folder, load), options) {}

Classified ImageClassifier::finish(const ImageRequest& /*request*/, const Tensor& hidden) const {
  const models::ImageEncoderConfig& config = model().config();
  require_hidden(hidden, std::nullopt, config.encoder.d_model());
  const Variable logits = model().classifier_logits(hidden, Offsets::uniform(1, hidden.rows()));
  return {.labels = ranked(probabilities(logits, config.problem).values(), config.labels), .error = {}};
}

std::vector<Classified> ImageClassifier::operator()(std::span<const std::string> paths) const {
  std::vector<Classified> results(paths.size());
  run(
      paths, [&](size_t i, const Tensor& hidden) { results[i] = finish({}, hidden); },
      [&](size_t i, const std::string& error) { results[i].error = error; });
  return results;
}

EmbedOptions ImageEmbedder::default_options() const {
  const models::ImageEncoderConfig& config = model().config();
  if (!config.pooler || config.pooler_kind == models::ImagePooler::dense) return {};
  return {.pooling = Pooling::pooler};
}

void ImageEmbedder::require(const EmbedOptions& options) const {
  const models::ImageEncoderConfig& config = model().config();
  const bool pooled = options.pooling == Pooling::pooler;
  require_vector(options, config.pooler, pooled ? config.pooled_width() : config.encoder.d_model());
}

ImageEmbedRequest ImageEmbedder::prepare(const std::string& path, const EmbedOptions& options) const {
  require(options);
  return {ImageEncoderPipeline::prepare(path), options};
}

ImageEmbedRequest ImageEmbedder::prepare(const data::Image& image, const EmbedOptions& options) const {
  require(options);
  return {ImageEncoderPipeline::prepare(image), options};
}

Embedded ImageEmbedder::finish(const ImageEmbedRequest& request, const Tensor& hidden) const {
  return {.values = finished(pooled(hidden, request.options, model()), request.options), .error = {}};
}

std::vector<Embedded> ImageEmbedder::operator()(std::span<const std::string> paths,
                                                const EmbedOptions& options) const {
  require(options);
  std::vector<Embedded> results(paths.size());
  run(
      paths,
      [&](size_t i, const Tensor& hidden) {
        results[i] = finish({{}, options}, hidden);
      },
      [&](size_t i, const std::string& error) { results[i].error = error; });
  return results;
}

}  // namespace qkv::pipelines
