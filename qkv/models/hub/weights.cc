#include "qkv/models/hub/weights.h"

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/json.h"
#include "qkv/kernels/pointwise.h"

namespace qkv::models {
namespace {

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
  if (!kernels::all_finite(scales))
    throw DataError(concat(where, ": expected finite scales, found others in ", name));
  return scales;
}

}  // namespace

std::string scales_name(const std::string& weight) { return weight + "_scale"; }

void load_parameter(const io::SafetensorsFile& file, const StoredTensor& from, const StoredForm& says,
                    const nn::Parameter& parameter, const LoadOptions& options) {
  const MemoryScope memory(MemoryUse::weights);
  Variable variable = parameter.variable;
  const bool any_form = variable.allows_quantized();
  const Tensor whole = file.as_stored(from.name, from.shape);
  const DType dtype = whole.dtype();
  const auto refuse = [&](const std::string& expected) {
    throw DataError(concat(file.path().string(), ": ", from.name, ": expected ", expected, ", found ",
                           file.dtype(from.name)));
  };
  if (dtype != DType::f32 && dtype != DType::bf16 && !(dtype == DType::i8 && any_form)) {
    refuse(any_form ? "F32, F16, BF16 or I8" : "F32, F16 or BF16");
  }
  const bool int8 = says.form == WeightForm::int8;
  if (any_form && (dtype == DType::i8) != int8) {
    refuse(concat(int8 ? "I8" : "no I8", ", as \"dtype\" in ", says.config, " says"));
  }
  const Tensor value = from.taken_out ? from.taken_out(whole) : whole;
  const Tensor scales = dtype == DType::i8 ? load_scales(file, from.name, value.rows()) : Tensor();
  FormedWeight weight;
  try {
    weight =
        in_form({value, scales}, any_form ? options.weights.value_or(qkv::form_of(dtype)) : WeightForm::f32);
  } catch (const NumericError& error) {
    throw DataError(concat(file.path().string(), ": ", from.name, ": ", error.what()));
  }
  const auto* const begin = static_cast<const std::byte*>(whole.address());
  const auto* const found = static_cast<const std::byte*>(weight.value.address());
  // A copy was made, and the file's own pages are not read again.
  if (found < begin || found >= begin + whole.bytes()) release_mapped(begin, whole.bytes());
  variable.set_value(weight.value, weight.scales);
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

StoredForm stored_form(const std::string& text, const std::string& path) {
  const JsonValue object = parse_json(text, path);
  for (const char* const key : {"dtype", "torch_dtype"}) {
    const auto found = object.find(key);
    if (!found || (found->is_string() && found->string() == "float16")) continue;
    for (const WeightForm form : {WeightForm::f32, WeightForm::bf16, WeightForm::int8}) {
      if (found->is_string() && found->string() == config_dtype(form)) return {path, form};
    }
    found->fail("\"float32\", \"float16\", \"bfloat16\" or \"int8\"");
  }
  return {path};
}

WeightForm form_of(const std::function<void(const nn::ParameterVisitor&)>& visit) {
  std::optional<WeightForm> form;
  visit([&](const std::string&, const nn::Parameter& parameter) {
    if (!form && parameter.variable.allows_quantized())
      form = qkv::form_of(parameter.variable.value().dtype());
  });
  return form.value_or(WeightForm::f32);
}

}  // namespace qkv::models
