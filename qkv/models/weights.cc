#include "qkv/models/weights.h"

#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/kernels/optimizer.h"

namespace qkv::models {
namespace {

std::string scales_name(const std::string& weight) { return weight + "_scale"; }

Tensor load_scales(const io::SafetensorsFile& file, const std::string& stored, int64_t rows) {
  const std::string name = scales_name(stored);
  const std::string where = concat(file.path().string(), ": ", stored);
  if (!file.contains(name)) {
    throw DataError(
        concat(where, ": it is I8: expected its scales as ", name, ", F32 [", rows, "], found none"));
  }
  Tensor scales = file.tensor(name, Shape{rows});
  if (scales.dtype() != DType::f32)
    throw DataError(concat(where, ": expected scales of F32, found ", file.dtype(name)));
  if (!kernels::all_finite(scales.data(), rows))
    throw DataError(concat(where, ": expected finite scales, found others in ", name));
  return scales;
}

}  // namespace

void load_parameter(const io::SafetensorsFile& file, const std::string& stored,
                    const nn::Parameter& parameter, std::optional<WeightForm> form) {
  const MemoryScope memory(MemoryUse::weights);
  Variable variable = parameter.variable;
  const Tensor value = file.as_stored(stored, parameter.shape);
  const DType dtype = value.dtype();
  const bool any_form = variable.takes_any_form();
  if (dtype != DType::f32 && dtype != DType::bf16 && !(dtype == DType::i8 && any_form)) {
    throw DataError(concat(file.path().string(), ": ", stored, ": expected F32, F16",
                           any_form ? ", BF16 or I8" : " or BF16", ", found ", file.dtype(stored)));
  }
  const Tensor scales = dtype == DType::i8 ? load_scales(file, stored, value.rows()) : Tensor();
  FormedWeight weight;
  try {
    weight = in_form({value, scales}, any_form ? form.value_or(form_of(dtype)) : WeightForm::f32);
  } catch (const NumericError& error) {
    throw DataError(concat(file.path().string(), ": ", stored, ": ", error.what()));
  }
  if (weight.value.address() != value.address()) release_mapped(value.address(), value.bytes());
  variable.set_value(weight.value, weight.scales);
}

void append_parameter(std::vector<io::NamedTensor>& tensors, const std::string& name,
                      const nn::Parameter& parameter) {
  tensors.push_back({name, parameter.variable.value()});
  if (parameter.variable.scales().defined())
    tensors.push_back({scales_name(name), parameter.variable.scales()});
}

const char* config_dtype(WeightForm form) {
  switch (form) {
    case WeightForm::f32:
      return "float32";
    case WeightForm::bf16:
      return "bfloat16";
    case WeightForm::int8:
      return "int8";
  }
  return "float32";
}

std::optional<WeightForm> weights_of_config(const std::string& text, const std::string& path) {
  const nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) throw DataError(concat(path, ": expected a JSON object"));
  for (const char* const key : {"dtype", "torch_dtype"}) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null() || *found == "float16") continue;
    for (const WeightForm form : {WeightForm::f32, WeightForm::bf16, WeightForm::int8}) {
      if (*found == config_dtype(form)) return form;
    }
    throw DataError(concat(path, ": \"", key,
                           "\": expected \"float32\", \"float16\", \"bfloat16\" or \"int8\", found ",
                           found->is_structured() ? found->type_name() : found->dump()));
  }
  return std::nullopt;
}

}  // namespace qkv::models
