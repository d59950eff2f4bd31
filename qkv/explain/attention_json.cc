#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/explain/attention_report.h"
#include "qkv/explain/head_statistics.h"
#include "qkv/explain/page_parts.h"

namespace qkv::explain {
std::string to_json(const AttentionReport& report) {
  report.validate();
  using Json = nlohmann::ordered_json;
  Json head = {{"title", report.title},
               {"model", report.model},
               {"source_tokens", report.source_tokens},
               {"target_tokens", report.target_tokens},
               {"target_inputs", report.keys(Part::decoder)}};
  if (report.tile > 1) head.update({{"tile", report.tile}, {"tokens", report.tiled_tokens}});
  if (!report.source_special.empty()) head["source_special"] = report.source_special;
  if (!report.target_special.empty()) head["target_special"] = report.target_special;
  if (report.second_text) head["second_text"] = *report.second_text;
  if (!report.alignment.empty()) head["alignment"] = report.alignment;
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();  // remove the closing brace; the layers follow
  text += ",\"layers\":[";
  for (const AttentionLayer& layer : report.layers) {
    if (text.back() == '}') text += ',';
    text += concat("\n{\"part\":\"", name_of(layer.part), "\",\"layer\":", layer.index,
                   ",\"heads\":", json_numbers(layer.weights),
                   ",\"statistics\":", to_json(head_statistics(report, layer)), "}");
  }
  return text + "]}\n";
}

}  // namespace qkv::explain
