#include "qkv/pipelines/classify.h"

#include "qkv/base/error.h"
#include "qkv/pipelines/row_results.h"

namespace qkv::pipelines {

TextClassifier::TextClassifier(std::shared_ptr<const LoadedTextEncoder> encoder)
    : TextEncoderPipeline(std::move(encoder)) {
  require_head(model().config().labelled == models::ClassificationTarget::texts, this->encoder()->folder,
               "a text classification");
}

TextClassifier::TextClassifier(const std::filesystem::path& folder, const models::LoadOptions& options)
    : TextClassifier(open_text_encoder(folder, options)) {}

EncoderRequest TextClassifier::prepare(std::string_view text, const ClassifyOptions& options) const {
  const size_t tab = options.pairs ? text.find('\t') : std::string_view::npos;
  return tab == std::string_view::npos ? read(text) : read(text.substr(0, tab), text.substr(tab + 1));
}

Classified TextClassifier::finish(const EncoderRequest& /*request*/, const Tensor& hidden) const {
  const models::TextEncoderConfig& config = model().config();
  require_hidden(hidden, std::nullopt, config.embedding.d_model);
  const Tensor found =
      probabilities(model().classifier_logits(hidden, Offsets::uniform(1, hidden.rows())), config.problem);
  return {.labels = ranked(found.values(), config.labels), .error = {}};
}

std::vector<Classified> TextClassifier::operator()(std::span<const std::string> texts,
                                                   const ClassifyOptions& options,
                                                   int64_t batch_tokens) const {
  return run(
      texts, batch_tokens, [&](const std::string& text) { return prepare(text, options); },
      [this](const EncoderRequest& request, const Tensor& hidden) { return finish(request, hidden); });
}

}  // namespace qkv::pipelines
