#include "qkv/pipelines/text_encoder.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/row_results.h"
#include "qkv/pipelines/sentence_transformer.h"
#include "qkv/search/batches.h"
#include "qkv/text/utf8.h"

namespace qkv::pipelines {
TextEncoderPipeline::TextEncoderPipeline(const std::filesystem::path& folder,
                                         const models::LoadOptions& options, int64_t batch_tokens)
    : folder_(folder),
      model_(models::load_text_encoder(folder, options)),
      tokenizer_(text::Tokenizer::load(folder)),
      batch_tokens_(batch_tokens) {
  if (tokenizer_.size() > model_->config().vocabulary) {
    throw DataError(concat(folder.string(), ": expected a tokenizer of at most the model's ",
                           model_->config().vocabulary, " tokens, found ", tokenizer_.size()));
  }
}

std::vector<TextEncoderPipeline::Read> TextEncoderPipeline::read(std::span<const std::string> texts,
                                                                 bool pairs,
                                                                 const text::EncodeOptions& options) const {
  std::vector<Read> result(texts.size());
  parallel_for(std::ssize(texts), 8, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (const auto bad = text::first_bad_utf8(texts[i])) {
        result[i].error = concat("expected UTF-8, found a malformed character at byte ", *bad);
        continue;
      }
      const std::string_view text = texts[i];
      const size_t tab = pairs ? text.find('\t') : std::string_view::npos;
      result[i].encoding = tab == std::string_view::npos
                               ? tokenizer_.encode(text, options)
                               : tokenizer_.encode(text.substr(0, tab), text.substr(tab + 1), options);
      const int64_t found = std::ssize(result[i].encoding.ids);
      const std::optional<int64_t> most = model_->config().max_positions;
      if (found == 0) result[i].error = "expected text, found none";
      if (most && found > *most) {
        result[i].error =
            concat("expected at most the ", *most, " tokens that the model can read, found ", found);
      }
    }
  });
  return result;
}

template <class Use>
void TextEncoderPipeline::run(std::span<const Read> texts, const Use& use) const {
  std::vector<size_t> good;
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].error.empty()) continue;
    good.push_back(i);
    lengths.push_back(std::ssize(texts[i].encoding.ids));
  }
  const bool typed = model_->config().embedding.token_types > 1;
  for (const std::vector<size_t>& batch : search::batches_by_length(lengths, batch_tokens_)) {
    std::vector<search::Ids> ids, types;
    for (const size_t k : batch) {
      ids.emplace_back(texts[good[k]].encoding.ids);
      types.emplace_back(texts[good[k]].encoding.type_ids);
    }
    const Ragged laid = search::pack_ragged(ids);
    nn::ForwardContext context;
    const Tensor hidden =
        (*model_)(laid, context, typed ? search::pack_ragged(types).values : Tensor()).value();
    for (size_t k = 0; k < batch.size(); ++k) {
      const auto s = static_cast<int64_t>(k);
      use(good[batch[k]], hidden.slice_rows(laid.offsets.begin(s), laid.offsets.length(s)));
    }
  }
}

TextEmbedOptions TextEncoderPipeline::embed_options() const {
  return sentence_transformer_options(folder_, *model_, tokenizer_);
}

std::vector<Embedded> TextEncoderPipeline::embed(std::span<const std::string> texts,
                                                 const TextEmbedOptions& options) const {
  text::EncodeOptions reading;
  if (options.max_length) reading.truncation = text::Truncation{.max_length = *options.max_length};
  std::vector<std::string> prompted;
  if (!options.prompt.empty()) {
    for (const std::string& text : texts) prompted.push_back(options.prompt + text);
    texts = prompted;
  }
  const std::vector<Read> encoded = read(texts, false, reading);
  std::vector<Embedded> results(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) results[i].error = encoded[i].error;
  run(encoded,
      [&](size_t i, const Tensor& hidden) { results[i].values = embedded(hidden, options.vector, *model_); });
  return results;
}

TextAttention TextEncoderPipeline::attention(const std::string& text) const {
  const Read one = read(std::span(&text, 1)).front();
  if (!one.error.empty()) throw DataError(concat("text: ", one.error));
  TextAttention result;
  for (const int32_t id : one.encoding.ids) result.tokens.emplace_back(tokenizer_.token(id).value_or(""));
  nn::ForwardContext context;
  context.observer = observer_of(result);
  const search::Ids ids = one.encoding.ids;
  (*model_)(search::pack_ragged(std::span(&ids, 1)), context);
  return result;
}

std::vector<Classified> TextEncoderPipeline::classify(std::span<const std::string> texts, bool pairs) const {
  const models::TextEncoderConfig& config = model_->config();
  if (config.labelled != models::ClassificationTarget::texts) {
    throw UsageError("classify: expected a model that labels texts, found one that does not");
  }
  const std::vector<Read> encoded = read(texts, pairs);
  std::vector<Classified> results(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) results[i].error = encoded[i].error;
  run(encoded, [&](size_t i, const Tensor& hidden) {
    const Tensor found =
        probabilities(model_->labels(hidden, Offsets::uniform(1, hidden.rows())), config.problem);
    results[i].labels = ranked(found.values(), config.labels);
  });
  return results;
}

std::vector<TaggedText> TextEncoderPipeline::tag(std::span<const std::string> texts) const {
  const models::TextEncoderConfig& config = model_->config();
  if (config.labelled != models::ClassificationTarget::tokens) {
    throw UsageError("tag: expected a model that labels tokens, found one that does not");
  }
  const std::vector<Read> encoded = read(texts);
  std::vector<TaggedText> results(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) results[i].error = encoded[i].error;
  run(encoded, [&](size_t i, const Tensor& hidden) {
    const text::Encoding& encoding = encoded[i].encoding;
    const Tensor found = probabilities(model_->labels(hidden, Offsets::uniform(1, hidden.rows())));
    for (size_t t = 0; t < encoding.size(); ++t) {
      if (encoding.special_mask[t] != 0) continue;
      const auto row = row_of(found, static_cast<int64_t>(t));
      const size_t label = largest(row, 1).front();
      results[i].tokens.push_back(
          {encoding.offsets[t].begin, encoding.offsets[t].end, {config.labels[label], row[label]}});
    }
  });
  return results;
}

std::vector<FilledText> TextEncoderPipeline::fill_masks(std::span<const std::string> texts,
                                                        int64_t count) const {
  if (!model_->config().masked_language) {
    throw UsageError("fill-mask: expected a model with a masked-language head, found one without");
  }
  if (count < 1) throw UsageError(concat("fill-mask: expected at least 1 guess, found ", count));
  const std::optional<int32_t> mask = tokenizer_.special_tokens().mask;
  if (!mask) throw UsageError("fill-mask: expected a tokenizer that names its mask token, found none");
  std::vector<Read> encoded = read(texts);
  const std::string spelled(tokenizer_.token(*mask).value_or("[MASK]"));
  std::vector<FilledText> results(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (encoded[i].error.empty() && std::ranges::count(encoded[i].encoding.ids, *mask) == 0) {
      encoded[i].error = concat("expected at least one ", spelled, ", found none");
    }
    results[i].error = encoded[i].error;
  }
  run(encoded, [&](size_t i, const Tensor& hidden) {
    const text::Encoding& encoding = encoded[i].encoding;
    for (size_t t = 0; t < encoding.size(); ++t) {
      if (encoding.ids[t] != *mask) continue;
      const Tensor found = probabilities(model_->guesses(hidden.slice_rows(static_cast<int64_t>(t), 1)));
      std::vector<MaskPrediction>& guesses = results[i].masks.emplace_back();
      for (const size_t id : largest(found.values(), static_cast<size_t>(count))) {
        std::vector<int32_t> filled = encoding.ids;
        filled[t] = static_cast<int32_t>(id);
        // Other masks stay to be seen; what was put around the text does not.
        std::vector<int32_t> shown;
        for (size_t place = 0; place < filled.size(); ++place) {
          if (encoding.special_mask[place] == 0) shown.push_back(filled[place]);
        }
        guesses.push_back({static_cast<int32_t>(id),
                           std::string(tokenizer_.token(static_cast<int32_t>(id)).value_or("")),
                           found.values()[id], tokenizer_.decode(shown, {.skip_special_tokens = false})});
      }
    }
  });
  return results;
}

}  // namespace qkv::pipelines
