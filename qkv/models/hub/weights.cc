#include "qkv/models/hub/weights.h"

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/json.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/ops/quantize.h"
#include "qkv/tensor/block_dtypes.h"

namespace qkv::models {
namespace {

Tensor load_scales(const io::TensorFile& file, const std::string& stored, int64_t rows) {
  const std::string name = scales_name(stored);
  const std::string where = concat(file.path().string(), ": ", stored);
  if (!file.contains(name)) {
    throw DataError(
        concat(where, ": it is I8: expected its scales as ", name, ", F32 [", rows, "], found none"));
  }
  const Tensor scales = file.as_stored(name, Shape{rows});
  if (scales.dtype() != DType::f32)
    throw DataError(concat(where, ": expected scales of F32, found ", file.dtype(name)));
  if (!kernels::all_finite(scales))
    throw DataError(concat(where, ": expected finite scales, found NaN or infinity in ", name));
  return scales;
}

}  // namespace

std::string scales_name(const std::string& weight) { return weight + "_scale"; }

void load_parameter(const io::TensorFile& file, const StoredTensor& from, const StoredDType& says,
                    const nn::Parameter& parameter, const LoadOptions& options) {
  const MemoryScope memory(MemoryUse::weights);
  const bool quantized = parameter.allows_quantized();
  const Tensor whole = file.as_stored(from.name, from.shape);
  const DType dtype = whole.dtype();
  const auto refuse = [&](const std::string& expected) {
    throw DataError(concat(file.path().string(), ": ", from.name, ": expected ", expected, ", found ",
                           file.dtype(from.name)));
  };
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16 &&
      !((dtype == DType::i8 || in_blocks(dtype)) && quantized)) {
    refuse(quantized ? "F32, F16, BF16, I8 or blocks" : "F32, F16 or BF16");
  }
  const bool int8 = says.dtype == DType::i8;
  if (quantized && (dtype == DType::i8) != int8) {
    refuse(concat(int8 ? "I8" : "no I8", ", as \"dtype\" in ", says.config, " says"));
  }
  const Tensor value = from.taken_out ? from.taken_out(whole) : whole;
  const Tensor scales = dtype == DType::i8 ? load_scales(file, from.name, value.rows()) : Tensor();
  const DType wanted = options.dtype ? parameter.dtype_in(*options.dtype) : dtype;
  QuantizedTensor weight;
  try {
    weight = to_dtype({value, scales}, quantized ? wanted : DType::f32);
  } catch (const NumericError& error) {
    throw DataError(concat(file.path().string(), ": ", from.name, ": ", error.what()));
  }
  // The values were copied; the file's pages are not needed again.
  if (!weight.values.shares_memory(whole)) release_mapped(whole.as_bytes().data(), whole.bytes());
  parameter.set_value(weight);
  if (!options.trainable) parameter.variable.set_requires_grad(false);
}

const char* config_dtype(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    case DType::i8:
      return "int8";
    default:
      return in_blocks(dtype) ? name_of(dtype) : "float32";
  }
}

StoredDType stored_dtype(const std::string& text, const std::string& path) {
  const JsonValue object = parse_json(text, path);
  for (const char* const key : {"dtype", "torch_dtype"}) {
    const auto found = object.find(key);
    if (!found) continue;
    for (const DType dtype : kWeightDTypes) {
      if (found->is_string() && found->string() == config_dtype(dtype)) return {path, dtype};
    }
    for (const DType dtype : kBlockDTypes) {
      if (found->is_string() && found->string() == config_dtype(dtype)) return {path, dtype};
    }
    found->fail("\"float32\", \"float16\", \"bfloat16\" or \"int8\"");
  }
  return {path};
}

DType weight_dtype(const std::function<void(const nn::ParameterVisitor&)>& visit) {
  std::optional<DType> dtype;
  visit([&](const std::string&, const nn::Parameter& parameter) {
    if (!parameter.allows_quantized()) return;
    const DType own = parameter.variable.value().dtype();
    // Not every matrix divides into blocks, and those of tokens may have larger ones.
    if (!dtype || (!in_blocks(*dtype) && in_blocks(own)) || (*dtype == DType::q8_0 && in_blocks(own)))
      dtype = own;
  });
  return dtype.value_or(DType::f32);
}

}  // namespace qkv::models
