// Folders of two encoders.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/checksums.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/dual_encoder.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/models/hub/opened_config.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/hub/weight_map.h"
#include "qkv/ops/quantize.h"

namespace qkv::models {
namespace {

using Json = nlohmann::json;
// Of the logarithm of the scale, up to which the scale is finite in f32 (it is at most log 100 in Radford et
// al. 2021), and of the bias.
constexpr float kMostScale = 80, kMostBias = 1e30f;
constexpr const char *kScale = "logit_scale", *kBias = "logit_bias";

const DualFamily& dual_of(const ConfigReader& reader, const std::string& family) {
  if (const DualFamily* dual = find_dual(family)) return *dual;
  reader.reject("model_type", "an encoder of texts and one of images (clip, siglip)");
}

// CLIP's numbers have no axis, SigLIP's have one.
Shape shape_of_numbers(const DualFamily& family) { return family.independent ? Shape{1} : Shape(); }

float number_in(const TensorFiles& files, const std::string& name, const Shape& shape, float most) {
  const io::TensorFile& file = files.file_of(name, shape);
  const std::string& dtype = file.dtype(name);
  if (dtype != "F32" && dtype != "F16" && dtype != "BF16")
    throw DataError(concat(file.path().string(), ": ", name, ": expected F32, F16 or BF16, found ", dtype));
  const float found = dequantize({file.as_stored(name, shape)}).values()[0];
  if (!(std::abs(found) <= most)) {
    throw DataError(
        concat(file.path().string(), ": ", name, ": expected a number of at most ", most, ", found ", found));
  }
  return found;
}

// The encoder's tensors, and its configuration in the whole's.
template <class Model, class Config>
ConfigWriter add_part(const Model& model, std::span<const FamilyOf<Config>> families,
                      const DualFamily::Encoder& encoder, DualPart part, bool own, const Json& original,
                      std::vector<io::NamedTensor>& tensors) {
  const FamilyOf<Config>& family = *find_family(families, encoder.model_type);
  const auto visit = [&](const nn::ParameterVisitor& visitor) { model.visit(visitor); };
  ConfigWriter config = family.serialize(model.config());
  if (original.is_object()) config.keep_others(original.dump());
  const WeightMap map = own ? WeightMap{.others_same = true, .own_prefix = own_prefix(part)}
                            : family.weight_map(model.config());
  for (io::NamedTensor& tensor : stored_tensors(map, visit)) tensors.push_back(std::move(tensor));
  config.omit("architectures dtype");  // of the whole
  return config;
}

}  // namespace

std::vector<float> Similarity::probabilities(std::span<const double> cosines) const {
  std::vector<double> values;
  double most = -INFINITY;
  for (const double cosine : cosines) {
    values.push_back(std::exp(double{log_scale}) * cosine + bias);
    most = std::max(most, values.back());
  }
  double sum = 0;
  for (double& value : values) {
    value = independent ? 1 / (1 + std::exp(-value)) : std::exp(value - most);
    sum += value;
  }
  std::vector<float> result;
  for (const double value : values) result.push_back(static_cast<float>(independent ? value : value / sum));
  return result;
}

Similarity load_similarity(const std::filesystem::path& folder) {
  const Opened opened = open_config(folder);
  const DualFamily& family = dual_of(opened.reader, opened.family);
  const TensorFiles files = with_io_errors([&] { return TensorFiles(folder, MapFor::reading); });
  const Shape shape = shape_of_numbers(family);
  return {.log_scale = number_in(files, kScale, shape, kMostScale),
          .bias = family.independent ? number_in(files, kBias, shape, kMostBias) : 0,
          .independent = family.independent};
}

DualEncoder load_dual_encoder(const std::filesystem::path& folder, const LoadOptions& options) {
  DualEncoder model{.text = load_text_encoder(folder, options),
                    .image = load_image_encoder(folder, options),
                    .similarity = load_similarity(folder)};
  const int64_t text = model.text->config().pooled_width(), image = model.image->config().pooled_width();
  if (text != image || !model.image->config().pooler) {
    throw DataError(concat(model_file_name(folder, kConfig),
                           ": expected vectors of texts and images of one width, found ", text, " and ",
                           model.image->config().pooler ? concat(image) : "none"));
  }
  return model;
}

void save_dual_encoder(const std::filesystem::path& folder, const DualEncoder& model,
                       std::string_view model_type, const std::filesystem::path& original) {
  const DualFamily* family = find_dual(model_type);
  if (family == nullptr) throw UsageError(concat("model_type: expected clip or siglip, found ", model_type));
  const DType dtype = weight_dtype(model);
  const std::string known = original.empty() ? "{}" : read_model_file(original, kConfig).value();
  const Json others = Json::parse(known);
  std::vector<io::NamedTensor> tensors;
  ConfigWriter whole(model_type_of(family->model_type, dtype), family->architecture);
  whole.string("dtype", config_dtype(dtype));
  whole.object("text_config", add_part(*model.text, encoder_families(), family->text, DualPart::text,
                                       is_own(dtype), others.value("text_config", Json()), tensors));
  whole.object("vision_config", add_part(*model.image, image_families(), family->image, DualPart::image,
                                         is_own(dtype), others.value("vision_config", Json()), tensors));
  if (!family->width.empty()) whole.integer(std::string(family->width), model.text->config().pooled_width());
  whole.keep_others(known);
  whole.omit("text_config_dict vision_config_dict");  // of which the parts are
  const Shape shape = shape_of_numbers(*family);
  tensors.push_back({kScale, Tensor::full(shape, model.similarity.log_scale)});
  if (family->independent) tensors.push_back({kBias, Tensor::full(shape, model.similarity.bias)});
  std::ranges::sort(tensors, {}, &io::NamedTensor::name);
  make_writable_folder(folder);
  write_file_atomically(folder / kConfig, whole.json());
  io::write_safetensors(folder / kSavedWeights, tensors, io::with_checksums({{"format", "pt"}}, tensors));
}

}  // namespace qkv::models
