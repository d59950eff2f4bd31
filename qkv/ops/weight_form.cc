#include "qkv/ops/weight_form.h"

#include <algorithm>
#include <array>

#include "qkv/kernels/pointwise.h"
#include "qkv/kernels/weight_rows.h"
#include "qkv/ops/weight_rows.h"

namespace qkv {
namespace {

struct Form {
  WeightForm form;
  const char* name;
  DType dtype;
};
constexpr std::array<Form, 3> kForms{{{WeightForm::f32, "f32", DType::f32},
                                      {WeightForm::bf16, "bf16", DType::bf16},
                                      {WeightForm::int8, "int8", DType::i8}}};

const Form& entry(WeightForm form) { return *std::ranges::find(kForms, form, &Form::form); }

}  // namespace

const char* name_of(WeightForm form) { return entry(form).name; }
DType dtype_of_form(WeightForm form) { return entry(form).dtype; }

std::vector<std::string> weight_form_names() {
  std::vector<std::string> names;
  for (const Form& form : kForms) names.emplace_back(form.name);
  return names;
}

WeightForm weight_form(std::string_view name) {
  const auto found = std::ranges::find(kForms, name, &Form::name);
  if (found == kForms.end())
    throw UsageError(concat("weights: expected f32, bf16 or int8, found \"", name, "\""));
  return found->form;
}

WeightForm form_of(DType dtype) {
  const auto found = std::ranges::find(kForms, dtype, &Form::dtype);
  if (found == kForms.end())
    throw ShapeError(concat("weights: expected f32, bf16 or i8, found ", name_of(dtype)));
  return found->form;
}

kernels::WeightRows weight_rows(const Tensor& value, const Tensor& scales) {
  return {.data = value.address(),
          .form = value.dtype(),
          .scales = value.dtype() == DType::i8 ? scales.data() : nullptr,
          .rows = value.rows(),
          .cols = value.cols()};
}

FormedWeight in_form(const FormedWeight& weight, WeightForm form) {
  const MemoryScope memory(MemoryUse::weights);
  const Tensor& value = weight.value;
  if (value.dtype() == dtype_of_form(form)) return weight;
  if (value.dtype() != DType::f32) {
    const Tensor wide = Tensor::empty(value.shape());
    kernels::widen_rows(weight_rows(value, weight.scales), wide.data());
    return in_form({wide}, form);
  }
  const Tensor narrow = Tensor::empty(value.shape(), dtype_of_form(form));
  if (form == WeightForm::bf16) {
    kernels::round_to_bf16(value.data(), narrow.data<BFloat16>(), value.numel());
    return {narrow};
  }
  if (value.cols() > kernels::kMaxInt8Cols) {
    throw ShapeError(
        concat("int8 weights: expected at most ", kernels::kMaxInt8Cols, " inputs, found ", value.shape()));
  }
  if (!kernels::all_finite(value))
    throw NumericError(concat("int8 weights ", value.shape(), ": expected finite numbers, found others"));
  const Tensor scales = Tensor::empty({value.rows()});
  kernels::quantize_rows(value.data(), value.rows(), value.cols(), narrow.data<int8_t>(), scales.data());
  return {narrow, scales};
}

}  // namespace qkv
