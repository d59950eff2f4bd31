#include "qkv/pipelines/text_attention.h"

#include <algorithm>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/pieces.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"
#include "qkv/pipelines/text_encoder.h"
#include "qkv/search/alignment.h"
#include "qkv/search/transformer.h"

namespace qkv::pipelines {
namespace {

void require_text(const char* what, const std::string& text) {
  if (const std::string error = text_error(text); !error.empty()) throw DataError(concat(what, ": ", error));
}

// One run of a model over the ids of `text`, whose attentions it adds or passes on.
template <class Run>
TextAttention capture_ids(TextAttention text, const std::vector<int32_t>& ids, std::optional<int64_t> limit,
                          const AttentionSink& sink, const Run& run) {
  if (ids.empty()) throw UsageError("text: expected at least one token, found none");
  if (const std::string error = length_error(std::ssize(ids), limit); !error.empty()) {
    throw DataError(concat("text: ", error));
  }
  nn::ForwardContext context;
  context.observer = [&](const std::string& name, const std::vector<Tensor>& weights) {
    search::CapturedAttention attention{name, to_host(weights.front())};
    if (sink) {
      sink(text, std::move(attention));
    } else {
      text.attentions.push_back(std::move(attention));
    }
  };
  const search::Ids one = ids;
  run(Ragged::from(std::span(&one, 1)), context);
  return text;
}

TextAttention capture_encoding(const LoadedTextEncoder& encoder, text::Encoding encoding,
                               const AttentionSink& sink) {
  const models::TextEncoder& model = *encoder.model;
  if (const std::string error = set_end(encoding, model.config(), encoder.tokenizer); !error.empty())
    throw DataError(concat("text: ", error));
  const bool typed = model.config().embedding.token_types > 1;
  TextAttention text{
      .tokens = pieces(encoder.tokenizer, encoding.ids), .special = encoding.special_mask, .attentions = {}};
  const auto second = std::ranges::find(encoding.text_index, int8_t{1});
  if (second != encoding.text_index.end()) text.second_text = second - encoding.text_index.begin();
  return capture_ids(std::move(text), encoding.ids, model.config().max_positions, sink,
                     [&](const Ragged& ids, nn::ForwardContext& context) {
                       const search::Ids types = encoding.type_ids;
                       model(ids, context, typed ? Ragged::from(std::span(&types, 1)).values : Tensor());
                     });
}

}  // namespace

TextAttention capture_attention(const LoadedLanguageModel& model, const std::string& text,
                                const AttentionSink& sink) {
  require_text("text", text);
  const std::vector<int32_t> ids = prompt_ids(model, text);
  return capture_ids(
      {.tokens = pieces(model.tokenizer, ids), .attentions = {}}, ids, model.model->config().max_positions,
      sink, [&](const Ragged& tokens, nn::ForwardContext& context) { (*model.model)(tokens, context); });
}

TextAttention capture_attention(const LoadedTextEncoder& encoder, const std::string& text,
                                const AttentionSink& sink) {
  require_text("text", text);
  text::EncodeOptions reading;
  // As for their vectors.
  if (encoder.model->config().pooled_row == models::PooledRow::last)
    reading.truncation = text::Truncation{
        .max_length = max_text_length(encoder.folder, encoder.model->config(), encoder.tokenizer)};
  return capture_encoding(encoder, encoder.tokenizer.encode(text, reading), sink);
}

TextAttention capture_attention(const LoadedTextEncoder& encoder, const std::string& first,
                                const std::string& second, const AttentionSink& sink) {
  require_text("first text", first);
  require_text("second text", second);
  if (encoder.model->config().end_id || encoder.model->config().padded)
    throw UsageError("second text: expected none, as the model reads one text, found one");
  return capture_encoding(encoder, encoder.tokenizer.encode(first, second), sink);
}

TextCapture capture_text(const models::TranslationModel& model, const std::string& source,
                         const std::string& target, const search::SearchOptions& options) {
  require_text("source", source);
  require_text("target", target);
  const text::TranslationTokenizer& tokenizer = *model.tokenizer;
  const text::Around around = around_source(model);
  const std::vector<int32_t> ids = source_ids(model, source, around);
  if (ids.empty()) throw UsageError("source: expected at least one token, found none");
  const std::optional<int32_t> first = model.generation.rules.forced_bos;
  const std::vector<int32_t> outputs =
      tokenizer.encode_target(target).empty()
          ? search::search(*model.transformer, std::span(&ids, 1), options).at(0).at(0).ids
          : target_ids(model, target, first);
  TextCapture result;
  result.capture = search::capture(*model.transformer, ids, outputs);
  result.source_tokens = pieces(tokenizer, ids, text::Side::source);
  result.target_input_tokens = pieces(tokenizer, result.capture.target_inputs, text::Side::target);
  result.target_output_tokens = pieces(tokenizer, result.capture.target_outputs, text::Side::target);
  const size_t end = ids.size() - around.after.size();
  for (size_t i = 0; i < ids.size(); ++i)
    result.source_special.push_back(i < around.before.size() || i >= end ? 1 : 0);
  for (const int32_t id : outputs) result.target_special.push_back(id == tokenizer.eos_id() ? 1 : 0);
  if (first && outputs.front() == *first) result.target_special.front() = 1;
  result.alignment = search::align(result.capture, tokenizer.eos_id());
  result.source = source;
  result.target = target.empty() ? tokenizer.decode(outputs) : target;
  return result;
}

}  // namespace qkv::pipelines
