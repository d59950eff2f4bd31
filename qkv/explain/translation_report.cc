#include "qkv/explain/translation_report.h"

#include <charconv>
#include <string_view>

#include "qkv/base/error.h"

namespace qkv::explain {
namespace {

// Takes "encoder.layers.3." and the like off the front of a name; the number of the layer, or nothing.
std::optional<int> take_layer(std::string_view& name, std::string_view stack) {
  if (!name.starts_with(stack)) return std::nullopt;
  const char* const begin = name.data() + stack.size();
  const char* const end = name.data() + name.size();
  int layer = 0;
  const auto [rest, error] = std::from_chars(begin, end, layer);
  if (error != std::errc() || rest == end || *rest != '.') return std::nullopt;
  name.remove_prefix(static_cast<size_t>(rest + 1 - name.data()));
  return layer;
}

AttentionLayer layer_of(const decode::CapturedAttention& attention) {
  std::string_view name = attention.name;
  if (const auto layer = take_layer(name, "encoder.layers."); layer && name == "self_attn") {
    return {Part::encoder, *layer, attention.weights};
  }
  name = attention.name;
  if (const auto layer = take_layer(name, "decoder.layers.")) {
    if (name == "self_attn") return {Part::decoder, *layer, attention.weights};
    if (name == "encoder_attn") return {Part::cross, *layer, attention.weights};
  }
  throw UsageError(concat("attention report: expected a name such as decoder.layers.1.encoder_attn, found ",
                          attention.name));
}

}  // namespace

AttentionReport report_of(const decode::TextCapture& text, const std::string& model_name) {
  AttentionReport report{.title = text.source + " → " + text.target,
                         .model = model_name,
                         .source_tokens = text.source_tokens,
                         .target_tokens = text.target_output_tokens,
                         .target_inputs = text.target_input_tokens,
                         .layers = {}};
  for (const auto& attention : text.capture.attentions) report.layers.push_back(layer_of(attention));
  return report;
}

AttentionReport translation_report(const models::TranslationModel& model, const std::string& model_name,
                                   const std::string& source, const std::string& target,
                                   const decode::SearchOptions& options) {
  return report_of(decode::capture_text(model, source, target, options), model_name);
}

}  // namespace qkv::explain
