#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/explain/attention_report.h"
#include "qkv/explain/page_parts.h"

namespace qkv::explain {
std::string to_json(const AttentionReport& report) {
  report.validate();
  using Json = nlohmann::ordered_json;
  const Json head = {{"title", report.title},
                     {"model", report.model},
                     {"source_tokens", report.source_tokens},
                     {"target_tokens", report.target_tokens},
                     {"target_inputs", report.keys(Part::decoder)}};
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();  // remove the closing brace; the layers follow
  text += ",\"layers\":[";
  for (const AttentionLayer& layer : report.layers) {
    if (text.back() == '}') text += ',';
    text += concat("\n{\"part\":\"", name_of(layer.part), "\",\"layer\":", layer.index,
                   ",\"heads\":", json_numbers(layer.weights), "}");
  }
  return text + "]}\n";
}

}  // namespace qkv::explain
