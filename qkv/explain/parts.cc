#include "qkv/explain/parts.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace qkv::explain {
namespace {

std::string part_of(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 7> kParts{
      {{"embed_", "embeddings"},
       {".self_attn.", "self_attention"},
       {".encoder_attn.", "cross_attention"},
       {"_norm.", "norms"},
       {".fc1.", "feed_forward"},
       {".fc2.", "feed_forward"},
       {".gate.", "feed_forward"}}};
  std::string head = name.substr(0, name.find('.'));
  if (head != "encoder" && head != "decoder" && !head.starts_with("embed_")) return head;
  for (const auto& [word, part] : kParts) {
    if (name.find(word) != std::string::npos) return part;
  }
  return head;
}

int64_t bytes(const Tensor& tensor) { return tensor.defined() ? static_cast<int64_t>(tensor.bytes()) : 0; }

}  // namespace

std::vector<PartCount> count_parts(const std::function<void(const nn::ParameterVisitor&)>& visit) {
  std::vector<PartCount> parts;
  visit([&](const std::string& name, const nn::Parameter& parameter) {
    const std::string part = part_of(name);
    auto found = std::ranges::find(parts, part, &PartCount::name);
    if (found == parts.end()) found = parts.insert(parts.end(), {.name = part});
    found->parameters += parameter.shape.numel();
    found->weight_bytes += bytes(parameter.variable.value()) + bytes(parameter.weight().scales());
  });
  return parts;
}

}  // namespace qkv::explain
