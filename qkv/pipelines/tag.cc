#include "qkv/pipelines/tag.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/pipelines/row_results.h"

namespace qkv::pipelines {

TokenTagger::TokenTagger(std::shared_ptr<const LoadedTextEncoder> encoder)
    : TextEncoderPipeline(std::move(encoder)) {
  require_head(model().config().labelled == models::ClassificationTarget::tokens, this->encoder()->folder,
               "a token classification");
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

TaggedText words_of(std::string_view text, const TaggedText& tagged) {
  constexpr std::string_view kBetween = " \t";
  TaggedText result{.tokens = {}, .words = true, .error = tagged.error};
  for (const TaggedToken& token : tagged.tokens) {
    // By its last byte, as a token of byte-level BPE may begin with the space before its word.
    if (token.end == 0 || token.end > text.size()) continue;
    const size_t last = token.end - 1;
    if (kBetween.find(text[last]) != std::string_view::npos) continue;
    if (!result.tokens.empty() && last < result.tokens.back().end) continue;  // not the first of its word
    const size_t space = text.find_last_of(kBetween, last);
    const size_t begin = space == std::string_view::npos ? 0 : space + 1;
    const size_t end = std::min(text.find_first_of(kBetween, last), text.size());
    result.tokens.push_back({.begin = begin,
                             .end = end,
                             .text = std::string(text.substr(begin, end - begin)),
                             .label = token.label});
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
