#include "qkv/decode/capture.h"

#include "qkv/base/error.h"
#include "qkv/decode/batches.h"
#include "qkv/decode/score.h"
#include "qkv/decode/transformer.h"
#include "qkv/text/utf8.h"

namespace qkv::decode {
namespace {

Ragged one_sequence(Ids ids) { return lay_out(std::span(&ids, 1)); }

void require_utf8(const char* what, const std::string& text) {
  if (const auto bad = text::first_bad_utf8(text)) {
    throw DataError(concat(what, ": expected UTF-8, found a malformed character at byte ", *bad));
  }
}

std::vector<std::string> pieces(const text::TranslationTokenizer& tokenizer, std::span<const int32_t> ids,
                                text::Side side) {
  std::vector<std::string> result;
  result.reserve(ids.size());
  for (const int32_t id : ids) result.emplace_back(tokenizer.piece(id, side));
  return result;
}

}  // namespace

Capture capture(const models::Transformer& model, std::span<const int32_t> source,
                std::span<const int32_t> target) {
  if (source.empty() || target.empty()) {
    throw UsageError(concat("capture: expected source and target with at least one token each, found ",
                            source.size(), " and ", target.size()));
  }
  Capture result{.source = {source.begin(), source.end()},
                 .target_inputs = decoder_input(model, target),
                 .target_outputs = {target.begin(), target.end()},
                 .log_probabilities = {},
                 .attentions = {}};
  nn::Pass pass;
  pass.observer = [&](const std::string& name, const std::vector<Tensor>& weights) {
    result.attentions.push_back({name, weights.front()});
  };
  const nn::Memory memory = model.encode(one_sequence(result.source), pass);
  const Variable hidden = model.decode(one_sequence(result.target_inputs), memory, pass);
  result.log_probabilities = label_log_probabilities(model.output_projection(), hidden.value(), target);
  return result;
}

TextCapture capture_text(const models::TranslationModel& model, const std::string& source,
                         const std::string& target, const SearchOptions& options) {
  require_utf8("source", source);
  require_utf8("target", target);
  const text::TranslationTokenizer& tokenizer = *model.tokenizer;
  std::vector<int32_t> source_ids = tokenizer.encode_source(source);
  if (source_ids.empty()) throw UsageError("source: expected text to attend to, found none");
  source_ids.push_back(tokenizer.eos_id(text::Side::source));
  std::vector<int32_t> target_ids = tokenizer.encode_target(target);
  if (target_ids.empty()) {
    target_ids = search(*model.transformer, std::span(&source_ids, 1), options).at(0).at(0).ids;
  } else {
    target_ids.push_back(tokenizer.eos_id());
  }
  TextCapture result;
  result.capture = capture(*model.transformer, source_ids, target_ids);
  result.source_tokens = pieces(tokenizer, source_ids, text::Side::source);
  result.target_input_tokens = pieces(tokenizer, result.capture.target_inputs, text::Side::target);
  result.target_output_tokens = pieces(tokenizer, result.capture.target_outputs, text::Side::target);
  result.source = source;
  result.target = target.empty() ? tokenizer.decode(target_ids) : target;
  return result;
}

}  // namespace qkv::decode
