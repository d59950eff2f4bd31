#include "qkv/pipelines/zero_shot/image_zero_shot.h"

#include <numeric>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/pipelines/row_results.h"
#include "qkv/pipelines/zero_shot/labels.h"

namespace qkv::pipelines {

ImageZeroShotClassifier::ImageZeroShotClassifier(const std::shared_ptr<const LoadedDualEncoder>& encoder,
                                                 const ImageEncoderOptions& options)
    : ImageEncoderPipeline(required(encoder)->image, options),
      texts_(encoder->text),
      reading_(texts_.default_options()),
      similarity_(encoder->model->similarity) {
  reading_.vector.normalize = true;
}

ImageZeroShotClassifier::ImageZeroShotClassifier(const std::filesystem::path& folder,
                                                 const ImageEncoderOptions& options,
                                                 const models::LoadOptions& load)
    : ImageZeroShotClassifier(open_dual_encoder(folder, load), options) {}

std::vector<EmbedRequest> ImageZeroShotClassifier::prepare_labels(std::span<const std::string> labels,
                                                                  const ImageZeroShotOptions& options) const {
  require_labels(labels, options.hypothesis);
  std::vector<EmbedRequest> requests;
  for (const std::string& label : labels) {
    requests.push_back(texts_.prepare(hypothesis_of(options.hypothesis, label), reading_));
    if (!requests.back().error.empty())
      throw UsageError(concat("labels: '", label, "': ", requests.back().error));
  }
  return requests;
}

LabelVectors ImageZeroShotClassifier::label_vectors(std::span<const std::string> labels,
                                                    const ImageZeroShotOptions& options) const {
  const std::vector<EmbedRequest> requests = prepare_labels(labels, options);
  std::vector<const EncoderRequest*> pointers;
  for (const EmbedRequest& request : requests) pointers.push_back(&request);
  LabelVectors result{.labels = {labels.begin(), labels.end()},
                      .vectors = std::vector<std::vector<float>>(labels.size())};
  pipelines::encode(texts_.model(), pointers, [&](size_t i, const Tensor& hidden) {
    result.vectors[i] = texts_.finish(requests[i], hidden).values;
  });
  return result;
}

Classified ImageZeroShotClassifier::finish(const ImageRequest& /*request*/, const Tensor& hidden,
                                           const LabelVectors& labels) const {
  const EmbedOptions how{.pooling = Pooling::pooler, .normalize = true};
  const std::vector<float> image = finished(pooled(hidden, how, model()), how);
  std::vector<double> cosines;
  for (const std::vector<float>& label : labels.vectors) {
    if (label.size() != image.size())
      throw UsageError(
          concat("labels: expected vectors of ", image.size(), " numbers, found ", label.size()));
    cosines.push_back(std::inner_product(label.begin(), label.end(), image.begin(), 0.0));
  }
  return {.labels = ranked(similarity_.probabilities(cosines), labels.labels), .error = {}};
}

std::vector<Classified> ImageZeroShotClassifier::operator()(std::span<const std::string> paths,
                                                            const LabelVectors& labels) const {
  std::vector<Classified> results(paths.size());
  run(
      paths, [&](size_t i, const Tensor& hidden) { results[i] = finish({}, hidden, labels); },
      [&](size_t i, const std::string& error) { results[i].error = error; });
  return results;
}

}  // namespace qkv::pipelines
