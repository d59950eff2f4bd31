#include "qkv/models/hub/parts/dual_family.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"

namespace qkv::models {
namespace {

constexpr std::array<DualFamily, 2> kFamilies{
    {{.model_type = "clip",
      .architecture = "CLIPModel",
      .text = {"clip_text_model", "CLIPTextModelWithProjection"},
      .image = {"clip_vision_model", "CLIPVisionModelWithProjection"},
      .width = "projection_dim",
      .usual_width = 512},
     {.model_type = "siglip",
      .architecture = "SiglipModel",
      .text = {"siglip_text_model", "SiglipTextModel"},
      .image = {"siglip_vision_model", "SiglipVisionModel"},
      .independent = true}}};

std::string key_of(DualPart part) { return part == DualPart::text ? "text_config" : "vision_config"; }

nlohmann::json object_of(const ConfigReader& reader, const std::string& key) {
  reader.object(key);
  const nlohmann::json found = nlohmann::json::parse(reader.find(key)->text(), nullptr, false);
  if (found.is_discarded()) reader.reject(key, "numbers within a double's range");
  return found;
}

}  // namespace

std::span<const DualFamily> dual_families() { return kFamilies; }

const DualFamily* find_dual(std::string_view model_type) {
  const auto found = std::ranges::find(kFamilies, model_type, &DualFamily::model_type);
  return found == kFamilies.end() ? nullptr : &*found;
}

std::string config_of_part(const ConfigReader& whole, const DualFamily& family, DualPart part) {
  const ConfigReader reader = whole.afresh();
  const std::vector<std::string> classes = reader.strings("architectures");
  if (!classes.empty() && classes.front() != family.architecture)
    reader.reject("architectures", std::string(family.architecture));
  // Of the beginning of training, and of models whose tables are tied.
  reader.ignore("logit_scale_init_value initializer_factor tie_word_embeddings");
  const bool of_text = part == DualPart::text;
  const std::string key = key_of(part), other = key_of(of_text ? DualPart::image : DualPart::text);
  reader.ignore(concat(other, " ", other, "_dict"));
  nlohmann::json config = nlohmann::json::object();
  // The second is of the first folders; it replaces the other.
  for (const std::string& name : {key, key + "_dict"}) {
    if (reader.has(name)) config = object_of(reader, name);
  }
  const DualFamily::Encoder& encoder = of_text ? family.text : family.image;
  if (!family.width.empty()) config[family.width] = reader.integer(family.width, family.usual_width);
  reader.reject_unknown_model_fields();
  const std::string model_type = reader.string("model_type");
  config["model_type"] =
      concat(model_type.substr(0, model_type.size() - family.model_type.size()), encoder.model_type);
  config["architectures"] = {encoder.architecture};
  for (const char* dtype : {"dtype", "torch_dtype"}) {
    config.erase(dtype);
    if (reader.has(dtype)) config[dtype] = reader.string(dtype);
  }
  return config.dump(2);
}

}  // namespace qkv::models
