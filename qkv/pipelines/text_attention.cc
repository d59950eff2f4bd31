#include "qkv/pipelines/text_attention.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/pieces.h"
#include "qkv/search/alignment.h"
#include "qkv/search/transformer.h"

namespace qkv::pipelines {
namespace {

void require_utf8(const char* what, const std::string& text) {
  if (const std::string error = utf8_error(text); !error.empty()) throw DataError(concat(what, ": ", error));
}

// One run of a model over ids alone.
template <class Model, class Run>
TextAttention capture_ids(const Model& model, const text::Tokenizer& tokenizer,
                          const std::vector<int32_t>& ids, std::optional<int64_t> limit, const Run& run) {
  if (ids.empty()) throw UsageError("text: expected at least one token, found none");
  if (const std::string error = length_error(std::ssize(ids), limit); !error.empty()) {
    throw DataError(concat("text: ", error));
  }
  TextAttention result{.tokens = pieces(tokenizer, ids), .attentions = {}};
  nn::ForwardContext context;
  context.observer = [&result](const std::string& name, const std::vector<Tensor>& weights) {
    result.attentions.push_back({name, to_host(weights.front())});
  };
  const search::Ids one = ids;
  run(model, Ragged::from(std::span(&one, 1)), context);
  return result;
}

TextAttention capture_encoding(const LoadedTextEncoder& encoder, const text::Encoding& encoding) {
  const bool typed = encoder.model->config().embedding.token_types > 1;
  TextAttention result =
      capture_ids(*encoder.model, encoder.tokenizer, encoding.ids, encoder.model->config().max_positions,
                  [&](const models::TextEncoder& model, const Ragged& ids, nn::ForwardContext& context) {
                    const search::Ids types = encoding.type_ids;
                    model(ids, context, typed ? Ragged::from(std::span(&types, 1)).values : Tensor());
                  });
  result.special = encoding.special_mask;
  const auto second = std::ranges::find(encoding.text_index, int8_t{1});
  if (second != encoding.text_index.end()) result.second_text = second - encoding.text_index.begin();
  return result;
}

}  // namespace

TextAttention capture_attention(const LoadedLanguageModel& model, const std::string& text) {
  require_utf8("text", text);
  return capture_ids(
      *model.model, model.tokenizer, prompt_ids(model, text), model.model->config().max_positions,
      [](const auto& decoder, const Ragged& ids, nn::ForwardContext& context) { decoder(ids, context); });
}

TextAttention capture_attention(const LoadedTextEncoder& encoder, const std::string& text) {
  require_utf8("text", text);
  return capture_encoding(encoder, encoder.tokenizer.encode(text));
}

TextAttention capture_attention(const LoadedTextEncoder& encoder, const std::string& first,
                                const std::string& second) {
  require_utf8("first text", first);
  require_utf8("second text", second);
  return capture_encoding(encoder, encoder.tokenizer.encode(first, second));
}

TextCapture capture_text(const models::TranslationModel& model, const std::string& source,
                         const std::string& target, const search::SearchOptions& options) {
  require_utf8("source", source);
  require_utf8("target", target);
  const text::TranslationTokenizer& tokenizer = *model.tokenizer;
  const std::vector<int32_t> ids = source_ids(model, source);
  if (ids.empty()) throw UsageError("source: expected at least one token, found none");
  std::vector<int32_t> target_ids = tokenizer.encode_target(target);
  if (target_ids.empty()) {
    target_ids = search::search(*model.transformer, std::span(&ids, 1), options).at(0).at(0).ids;
  } else {
    target_ids.push_back(tokenizer.eos_id());
  }
  TextCapture result;
  result.capture = search::capture(*model.transformer, ids, target_ids);
  result.source_tokens = pieces(tokenizer, ids, text::Side::source);
  result.target_input_tokens = pieces(tokenizer, result.capture.target_inputs, text::Side::target);
  result.target_output_tokens = pieces(tokenizer, result.capture.target_outputs, text::Side::target);
  for (const int32_t id : ids) result.source_special.push_back(id == tokenizer.eos_id() ? 1 : 0);
  result.alignment = search::align(result.capture, search::alignment_layer(model.transformer->config()));
  result.source = source;
  result.target = target.empty() ? tokenizer.decode(target_ids) : target;
  return result;
}

}  // namespace qkv::pipelines
