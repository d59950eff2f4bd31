#include "qkv/pipelines/embed.h"

#include <utility>

#include "qkv/base/error.h"
#include "qkv/pipelines/row_results.h"
#include "qkv/pipelines/sentence_transformers/dense.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"

namespace qkv::pipelines {

int64_t TextEmbedOptions::width(const models::TextEncoder& model) const {
  if (dense && !dense->empty()) return dense->back().outputs();
  return vector.pooling == Pooling::pooler ? model.config().pooled_width() : model.config().encoder.d_model();
}

TextEmbedOptions TextEmbedder::default_options() const {
  return sentence_transformer_options(encoder()->folder, model(), tokenizer());
}

EmbedRequest TextEmbedder::prepare(std::string_view text, const TextEmbedOptions& options) const {
  require_vector(options.vector, model().config().pooler, options.width(model()));
  return {{read_after(options.prompt, text, options.max_length)}, options.vector, options.dense};
}

EmbedRequest TextEmbedder::prepare(std::span<const int32_t> ids, const TextEmbedOptions& options) const {
  require_vector(options.vector, model().config().pooler, options.width(model()));
  return {{read(ids)}, options.vector, options.dense};
}

Embedded TextEmbedder::finish(const EmbedRequest& request, const Tensor& hidden) const {
  std::vector<float> vector = pooled(hidden, request.options, model());
  if (request.dense) {
    for (const DenseLayer& layer : *request.dense) vector = layer(vector);
  }
  return {.values = finished(std::move(vector), request.options), .error = {}};
}

std::vector<Embedded> TextEmbedder::operator()(std::span<const std::string> texts,
                                               const TextEmbedOptions& options, int64_t batch_tokens) const {
  return run(
      texts, batch_tokens, [&](const std::string& text) { return prepare(text, options); },
      [this](const EmbedRequest& request, const Tensor& hidden) { return finish(request, hidden); });
}

}  // namespace qkv::pipelines
