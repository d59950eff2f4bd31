#include "qkv/pipelines/tag.h"

#include "qkv/base/error.h"
#include "qkv/pipelines/row_results.h"

namespace qkv::pipelines {

TokenTagger::TokenTagger(std::shared_ptr<const LoadedTextEncoder> encoder)
    : TextEncoderPipeline(std::move(encoder)) {
  if (model().config().labelled != models::ClassificationTarget::tokens) {
    throw UsageError("tag: expected a model with a token classification head, found none");
  }
}

TokenTagger::TokenTagger(const std::filesystem::path& folder, const models::LoadOptions& options)
    : TokenTagger(open_text_encoder(folder, options)) {}

TagRequest TokenTagger::prepare(std::string_view text) const { return {{read(text)}, std::string(text)}; }

TaggedText TokenTagger::finish(const TagRequest& request, const Tensor& hidden) const {
  const text::Encoding& encoding = request.encoding;
  require_encoded(request, hidden, model().config().embedding.d_model);
  const Tensor found = probabilities(model().classifier_logits(hidden, Offsets::uniform(1, hidden.rows())));
  TaggedText result;
  for (size_t t = 0; t < encoding.size(); ++t) {
    if (encoding.special_mask[t] != 0) continue;
    const auto row = row_of(found, static_cast<int64_t>(t));
    const size_t label = largest(row, 1).front();
    const auto [begin, end] = encoding.offsets[t];
    if (begin > end || end > request.text.size()) {
      throw UsageError(concat("tag: expected tokens within the text of ", request.text.size(),
                              " bytes, found bytes ", begin, " to ", end));
    }
    result.tokens.push_back({.begin = begin,
                             .end = end,
                             .text = request.text.substr(begin, end - begin),
                             .label = {model().config().labels[label], row[label]}});
  }
  return result;
}

std::vector<TaggedText> TokenTagger::operator()(std::span<const std::string> texts,
                                                int64_t batch_tokens) const {
  return run(
      texts, batch_tokens, [this](const std::string& text) { return prepare(text); },
      [this](const TagRequest& request, const Tensor& hidden) { return finish(request, hidden); });
}

}  // namespace qkv::pipelines
