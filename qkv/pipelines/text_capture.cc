#include "qkv/pipelines/text_capture.h"

#include "qkv/base/error.h"
#include "qkv/search/transformer.h"
#include "qkv/text/utf8.h"

namespace qkv::pipelines {
namespace {

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

TextCapture capture_text(const models::TranslationModel& model, const std::string& source,
                         const std::string& target, const search::SearchOptions& options) {
  require_utf8("source", source);
  require_utf8("target", target);
  const text::TranslationTokenizer& tokenizer = *model.tokenizer;
  std::vector<int32_t> source_ids = tokenizer.encode_source(source);
  if (source_ids.empty()) throw UsageError("source: expected text to attend to, found none");
  source_ids.push_back(tokenizer.eos_id(text::Side::source));
  std::vector<int32_t> target_ids = tokenizer.encode_target(target);
  if (target_ids.empty()) {
    target_ids = search::search(*model.transformer, std::span(&source_ids, 1), options).at(0).at(0).ids;
  } else {
    target_ids.push_back(tokenizer.eos_id());
  }
  TextCapture result;
  result.capture = search::capture(*model.transformer, source_ids, target_ids);
  result.source_tokens = pieces(tokenizer, source_ids, text::Side::source);
  result.target_input_tokens = pieces(tokenizer, result.capture.target_inputs, text::Side::target);
  result.target_output_tokens = pieces(tokenizer, result.capture.target_outputs, text::Side::target);
  result.source = source;
  result.target = target.empty() ? tokenizer.decode(target_ids) : target;
  return result;
}

}  // namespace qkv::pipelines
