#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/explain/attention_report.h"

namespace qkv::explain {
namespace {

// [head][query][key], each weight in the fewest digits that read back as the same float.
std::string nested(const Tensor& weights) {
  const int64_t heads = weights.dim(0), queries = weights.dim(1), keys = weights.dim(2);
  std::string text = "[";
  std::array<char, 32> digits{};
  for (int64_t head = 0; head < heads; ++head) {
    text += head ? ",[" : "[";
    for (int64_t query = 0; query < queries; ++query) {
      const float* row = weights.data() + (head * queries + query) * weights.row_stride();
      text += query ? ",[" : "[";
      for (int64_t key = 0; key < keys; ++key) {
        if (key) text += ',';
        text.append(digits.data(), std::to_chars(digits.begin(), digits.end(), row[key]).ptr);
      }
      text += ']';
    }
    text += ']';
  }
  return text + "]";
}

}  // namespace

std::string to_json(const AttentionReport& report) {
  report.validate();
  using Json = nlohmann::ordered_json;
  const Json head = {{"title", report.title},
                     {"model", report.model},
                     {"source_tokens", report.source_tokens},
                     {"target_tokens", report.target_tokens},
                     {"target_inputs", report.keys(Part::decoder)}};
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();  // the closing brace, for the layers follow
  text += ",\"layers\":[";
  for (const AttentionLayer& layer : report.layers) {
    if (text.back() == '}') text += ',';
    text += concat("\n{\"part\":\"", name_of(layer.part), "\",\"layer\":", layer.index,
                   ",\"heads\":", nested(layer.weights), "}");
  }
  return text + "]}\n";
}

}  // namespace qkv::explain
