#include "qkv/explain/captured_report.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "qkv/base/error.h"

namespace qkv::explain {

AttentionLayer attention_layer(const search::CapturedAttention& attention) {
  struct Pattern {
    std::string_view before, after;  // around the layer's number
    Part part;
  };
  static constexpr Pattern kPatterns[] = {{"encoder.layers.", ".self_attn", Part::encoder},
                                          {"decoder.layers.", ".self_attn", Part::decoder},
                                          {"decoder.layers.", ".encoder_attn", Part::cross}};
  const std::string_view name = attention.name;
  for (const Pattern& pattern : kPatterns) {
    if (!name.starts_with(pattern.before) || !name.ends_with(pattern.after)) continue;
    const std::string_view number =
        name.substr(pattern.before.size(),
                    name.size() - std::min(name.size(), pattern.before.size() + pattern.after.size()));
    int index = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (error == std::errc() && end == number.data() + number.size() && index >= 0) {
      return {.part = pattern.part, .index = index, .weights = attention.weights};
    }
  }
  throw DataError(
      concat("attention report: expected a name such as decoder.layers.0.encoder_attn, found ", name));
}

AttentionReport attention_report(const pipelines::TextAttention& captured, const std::string& title,
                                 const std::string& model) {
  AttentionReport report{.title = title,
                         .model = model,
                         .source_tokens = captured.tokens,
                         .target_tokens = captured.tokens,
                         .target_inputs = {},
                         .layers = {},
                         .source_special = captured.special,
                         .second_text = captured.second_text};
  for (const search::CapturedAttention& attention : captured.attentions) {
    report.layers.push_back(attention_layer(attention));
  }
  return report;
}

AttentionReport attention_report(const pipelines::TextCapture& captured, const std::string& model) {
  AttentionReport report{.title = concat(captured.source, " \u2192 ", captured.target),
                         .model = model,
                         .source_tokens = captured.source_tokens,
                         .target_tokens = captured.target_output_tokens,
                         .target_inputs = captured.target_input_tokens,
                         .layers = {},
                         .source_special = captured.source_special,
                         .target_special = captured.target_special,
                         .alignment = captured.alignment};
  for (const search::CapturedAttention& attention : captured.capture.attentions) {
    report.layers.push_back(attention_layer(attention));
  }
  return report;
}

}  // namespace qkv::explain
