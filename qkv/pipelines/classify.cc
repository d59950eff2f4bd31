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
  return tab == std::string_view::npos ? without_padding(read(text))
                                       : prepare(text.substr(0, tab), text.substr(tab + 1));
}

EncoderRequest TextClassifier::prepare(std::string_view first, std::string_view second,
                                       const text::EncodeOptions& options) const {
  return without_padding(read(first, second, options));
}

EncoderRequest TextClassifier::without_padding(EncoderRequest request) const {
  text::Encoding& encoding = request.encoding;
  for (const int32_t pad : model().config().pad_ids) {
    while (encoding.size() > 1 && encoding.ids.back() == pad) {
      encoding.ids.pop_back();
      encoding.offsets.pop_back();
      encoding.type_ids.pop_back();
      encoding.special_mask.pop_back();
      encoding.text_index.pop_back();
      encoding.word_index.pop_back();
    }
  }
  return request;
}

Tensor TextClassifier::probabilities_of(const Tensor& hidden, models::ProblemType problem) const {
  require_hidden(hidden, std::nullopt, model().config().embedding.d_model);
  return probabilities(model().classifier_logits(hidden, Offsets::uniform(1, hidden.rows())), problem);
}

Classified TextClassifier::finish(const EncoderRequest& /*request*/, const Tensor& hidden) const {
  const models::TextEncoderConfig& config = model().config();
  return {.labels = ranked(probabilities_of(hidden, config.problem).values(), config.labels), .error = {}};
}

std::vector<Classified> TextClassifier::operator()(std::span<const std::string> texts,
                                                   const ClassifyOptions& options,
                                                   int64_t batch_tokens) const {
  return run(
      texts, batch_tokens, [&](const std::string& text) { return prepare(text, options); },
      [this](const EncoderRequest& request, const Tensor& hidden) { return finish(request, hidden); });
}

}  // namespace qkv::pipelines
