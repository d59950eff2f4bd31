#include "qkv/explain/parts.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"

namespace qkv::explain {
namespace {

std::string part_of(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 14> kParts{
      {{"embed_", "embeddings"},
       {".conv", "convolutions"},
       {".self_attn.", "self_attention"},
       {".encoder_attn.", "cross_attention"},
       {".experts.", "experts"},
       {".router.", "router"},
       {".shared_", "shared_expert"},
       {"_norm.", "norms"},
       {".fc1.", "feed_forward"},
       {".fc2.", "feed_forward"},
       {".gate.", "feed_forward"},
       {".xielu.", "feed_forward"},
       {"_layer_scale", "norms"},
       {".layer_scalar", "norms"}}};
  for (const std::string encoder : {"text.", "image."}) {  // of DualEncoder
    if (name.starts_with(encoder)) return encoder + part_of(name.substr(encoder.size()));
  }
  constexpr std::string_view kModel = "model.";  // of Transformer
  for (const std::string stack : {"encoder.", "decoder."}) {
    if (name.starts_with(concat(kModel, stack))) return stack + part_of(name.substr(kModel.size()));
  }
  std::string head = name.substr(0, name.find('.'));
  if (head != "encoder" && head != "decoder" && !head.starts_with("embed_")) return head;
  for (const auto& [word, part] : kParts) {
    if (name.find(word) != std::string::npos) return part;
  }
  return head;
}

// Experts are alike: a token's are the first ones. ".layers.3.experts.7." is one of layer 3.
bool is_active(const std::string& name, const nn::StackOptions& stack) {
  const auto number_after = [&](std::string_view word) -> std::optional<size_t> {
    const size_t at = name.find(word);
    if (at == std::string::npos) return std::nullopt;
    return std::stoul(name.substr(at + word.size()));
  };
  const auto layer = number_after("layers."), expert = number_after(".experts.");
  if (!layer || !expert || *layer >= stack.layers.size()) return true;
  return static_cast<int64_t>(*expert) < stack.layers[*layer].experts.per_token;
}

int64_t bytes(const Tensor& tensor) { return tensor.defined() ? static_cast<int64_t>(tensor.bytes()) : 0; }

void add(PartCount& part, DType dtype, int64_t parameters) {
  auto own = std::ranges::find(part.dtypes, dtype, &std::pair<DType, int64_t>::first);
  if (own == part.dtypes.end()) own = part.dtypes.insert(own, {dtype, 0});
  own->second += parameters;
}

}  // namespace

std::vector<PartCount> count_parts(const std::function<void(const nn::ParameterVisitor&)>& visit,
                                   const nn::StackOptions& stack) {
  std::vector<PartCount> parts;
  visit([&](const std::string& name, const nn::Parameter& parameter) {
    const std::string part = part_of(name);
    auto found = std::ranges::find(parts, part, &PartCount::name);
    if (found == parts.end()) found = parts.insert(parts.end(), {.name = part});
    found->parameters += parameter.shape.numel();
    if (is_active(name, stack)) found->active += parameter.shape.numel();
    add(*found, parameter.variable.value().dtype(), parameter.shape.numel());
    found->weight_bytes += bytes(parameter.variable.value()) + bytes(parameter.weight().scales());
  });
  return parts;
}

PartCount total(const std::vector<PartCount>& parts) {
  PartCount sum;
  for (const PartCount& part : parts) {
    sum.parameters += part.parameters;
    sum.active += part.active;
    sum.weight_bytes += part.weight_bytes;
    for (const auto& [dtype, parameters] : part.dtypes) add(sum, dtype, parameters);
  }
  return sum;
}

std::string to_json(const std::vector<PartCount>& parts) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PartCount& part : parts) {
    list.push_back({{"name", part.name},
                    {"parameters", part.parameters},
                    {"active_parameters", part.active},
                    {"weight_bytes", part.weight_bytes}});
    for (const auto& [dtype, parameters] : part.dtypes) list.back()["dtypes"][name_of(dtype)] = parameters;
  }
  return list.dump();
}

}  // namespace qkv::explain
