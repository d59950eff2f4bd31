#include "qkv/pipelines/text_encoder.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/data/batches_by_length.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/row_results.h"
#include "qkv/tensor/storage.h"

namespace qkv::pipelines {

namespace {

void require_equal_lists(const text::Encoding& encoding) {
  const size_t size = encoding.ids.size();
  for (const size_t other : {encoding.offsets.size(), encoding.type_ids.size(), encoding.special_mask.size(),
                             encoding.text_index.size(), encoding.word_index.size()}) {
    if (other != size) {
      throw UsageError(concat("request: expected ", size, " of everything, as there are ids, found ", other));
    }
  }
}

// A text with its lists.
void resize(text::Encoding& encoding, size_t size, int32_t pad = 0) {
  encoding.ids.resize(size, pad);
  encoding.offsets.resize(size);
  encoding.type_ids.resize(size);
  encoding.special_mask.resize(size, 1);
  encoding.text_index.resize(size, -1);
  encoding.word_index.resize(size, -1);
}

}  // namespace

std::string set_end(text::Encoding& encoding, const models::TextEncoderConfig& config,
                    const text::Tokenizer& tokenizer) {
  if (config.end_id) {
    const auto end = std::ranges::find(encoding.ids, *config.end_id);
    if (end == encoding.ids.end()) {
      return concat("expected a text with the token ", *config.end_id,
                    ", which ends it (eos_token_id), found none");
    }
    resize(encoding, static_cast<size_t>(end - encoding.ids.begin()) + 1);
  }
  if (config.padded && std::ssize(encoding.ids) < *config.max_positions) {
    const std::optional<int32_t> pad = tokenizer.special_tokens().pad;
    if (!pad) return "tokenizer: expected a pad token, which the model reads, found none";
    resize(encoding, static_cast<size_t>(*config.max_positions), *pad);
  }
  return {};
}

void require_encoded(const EncoderRequest& request, const Tensor& hidden, int64_t d_model) {
  require_equal_lists(request.encoding);
  require_hidden(hidden, std::ssize(request.encoding.ids), d_model);
}

void encode(const models::TextEncoder& model, std::span<const EncoderRequest* const> requests,
            const std::function<void(size_t request, const Tensor& hidden)>& use, int64_t batch_tokens) {
  std::vector<size_t> good;
  std::vector<int64_t> lengths;
  if (!use) throw UsageError("encode: expected a function for the results, found none");
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!requests[i]) throw UsageError(concat("encode: request ", i, ": expected one, found none"));
    if (!requests[i]->error.empty()) continue;
    require_equal_lists(requests[i]->encoding);
    good.push_back(i);
    lengths.push_back(std::ssize(requests[i]->encoding.ids));
  }
  const bool typed = model.config().embedding.token_types > 1;
  const InferenceMemory inference;
  for (const std::vector<size_t>& batch : data::batches_by_length(lengths, batch_tokens)) {
    std::vector<std::span<const int32_t>> ids, types;
    for (const size_t k : batch) {
      ids.emplace_back(requests[good[k]]->encoding.ids);
      types.emplace_back(requests[good[k]]->encoding.type_ids);
    }
    const Ragged packed = Ragged::from(ids);
    nn::ForwardContext context;
    const Tensor hidden = model(packed, context, typed ? Ragged::from(types).values : Tensor()).value();
    for (size_t k = 0; k < batch.size(); ++k) {
      const auto s = static_cast<int64_t>(k);
      use(good[batch[k]], hidden.slice_rows(packed.offsets.begin(s), packed.offsets.length(s)));
    }
  }
}

EncoderRequest TextEncoderPipeline::read(std::string_view text, const text::EncodeOptions& options) const {
  if (std::string error = text_error(text); !error.empty())
    return {.encoding = {}, .error = std::move(error)};
  return checked(tokenizer().encode(text, options));
}

EncoderRequest TextEncoderPipeline::read_after(std::string_view prompt, std::string_view text,
                                               std::optional<int64_t> max_length) const {
  text::EncodeOptions options;
  if (max_length) options.truncation = text::Truncation{.max_length = *max_length};
  return prompt.empty() ? read(text, options) : read(concat(prompt, text), options);
}

EncoderRequest TextEncoderPipeline::read(std::span<const int32_t> ids) const {
  const size_t size = ids.size();
  return checked({.ids = {ids.begin(), ids.end()},
                  .offsets = std::vector<text::ByteRange>(size),
                  .type_ids = std::vector<int32_t>(size),
                  .special_mask = std::vector<uint8_t>(size),
                  .text_index = std::vector<int8_t>(size),
                  .word_index = std::vector<int32_t>(size)});
}

EncoderRequest TextEncoderPipeline::read(std::string_view first, std::string_view second,
                                         const text::EncodeOptions& options) const {
  for (const std::string_view text : {first, second}) {
    if (std::string error = text_error(text); !error.empty())
      return {.encoding = {}, .error = std::move(error)};
  }
  return checked(tokenizer().encode(first, second, options));
}

EncoderRequest TextEncoderPipeline::checked(text::Encoding encoding) const {
  if (encoding.ids.empty()) return {.encoding = {}, .error = "expected text, found none"};
  std::string error = set_end(encoding, model().config(), tokenizer());
  if (error.empty()) error = length_error(std::ssize(encoding.ids), model().config().max_positions);
  if (error.empty()) error = ids_error(encoding.ids, model().config().vocabulary);
  const int64_t types = model().config().embedding.token_types;
  const auto largest = std::ranges::max_element(encoding.type_ids);
  if (error.empty() && types > 1 && largest != encoding.type_ids.end() && *largest >= types)
    error = concat("tokenizer.json: expected a type_id below ", types, " (the model's), found ", *largest);
  return {.encoding = std::move(encoding), .error = std::move(error)};
}

}  // namespace qkv::pipelines
