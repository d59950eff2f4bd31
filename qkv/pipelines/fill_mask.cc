#include "qkv/pipelines/fill_mask.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/pipelines/row_results.h"

namespace qkv::pipelines {
namespace {

int32_t mask_of(const LoadedTextEncoder& encoder) {
  require_head(encoder.model->config().masked_language, encoder.folder, "a masked-language");
  const std::optional<int32_t> mask = encoder.tokenizer.special_tokens().mask;
  if (!mask)
    throw DataError(concat(encoder.folder.string(), ": expected a tokenizer with a mask token, found none"));
  return *mask;
}

}  // namespace

MaskFiller::MaskFiller(std::shared_ptr<const LoadedTextEncoder> encoder)
    : TextEncoderPipeline(std::move(encoder)), mask_(mask_of(*this->encoder())) {}

std::string_view MaskFiller::mask_token() const { return tokenizer().token(mask_).value_or("[MASK]"); }

MaskFiller::MaskFiller(const std::filesystem::path& folder, const models::LoadOptions& options)
    : MaskFiller(open_text_encoder(folder, options)) {}

FillMaskRequest MaskFiller::prepare(std::string_view text, const FillMaskOptions& options) const {
  if (options.count < 1) {
    throw UsageError(concat("fill-mask: count: expected at least 1, found ", options.count));
  }
  FillMaskRequest request{{read(text)}, options};
  if (request.error.empty() && std::ranges::count(request.encoding.ids, mask_) == 0) {
    request.error = concat("expected at least one ", mask_token(), ", found none");
  }
  return request;
}

FilledText MaskFiller::finish(const FillMaskRequest& request, const Tensor& hidden) const {
  const text::Encoding& encoding = request.encoding;
  require_encoded(request, hidden, model().config().embedding.d_model);
  FilledText result;
  for (size_t t = 0; t < encoding.size(); ++t) {
    if (encoding.ids[t] != mask_) continue;
    const Tensor found =
        probabilities(model().masked_language_logits(hidden.slice_rows(static_cast<int64_t>(t), 1)));
    std::vector<MaskPrediction>& predictions = result.masks.emplace_back();
    for (const size_t id : largest(found.values(), static_cast<size_t>(request.options.count))) {
      std::vector<int32_t> filled = encoding.ids;
      filled[t] = static_cast<int32_t>(id);
      // Other masks stay in the text; special tokens are removed.
      std::vector<int32_t> shown;
      for (size_t position = 0; position < filled.size(); ++position) {
        if (encoding.special_mask[position] == 0) shown.push_back(filled[position]);
      }
      predictions.push_back({.id = static_cast<int32_t>(id),
                             .token = std::string(tokenizer().token(static_cast<int32_t>(id)).value_or("")),
                             .probability = found.values()[id],
                             .text = tokenizer().decode(shown, {.skip_special_tokens = false})});
    }
  }
  return result;
}

std::vector<FilledText> MaskFiller::operator()(std::span<const std::string> texts,
                                               const FillMaskOptions& options, int64_t batch_tokens) const {
  return run(
      texts, batch_tokens, [&](const std::string& text) { return prepare(text, options); },
      [this](const FillMaskRequest& request, const Tensor& hidden) { return finish(request, hidden); });
}

}  // namespace qkv::pipelines
