#include "qkv/models/hub/mxfp4.h"

#include <array>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/ops/quantize.h"

namespace qkv::models {
namespace {

constexpr int64_t kBlock = 32;
constexpr std::array<float, 16> kElements{0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                          -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
constexpr int kScaleBias = 127, kNoScale = 255;

Tensor bytes_of(const TensorFiles& files, const std::string& name, const Shape& shape) {
  const io::TensorFile& file = files.file_of(name, shape);
  if (file.dtype(name) != "U8") {
    throw DataError(concat(file.path().string(), ": ", name, ": expected U8, as MXFP4 is stored, found ",
                           file.dtype(name)));
  }
  return file.as_stored(name, shape);
}

}  // namespace

void load_mxfp4(const TensorFiles& files, const Mxfp4& names, const MappedName& from,
                const nn::Parameter& parameter, const LoadOptions& options) {
  const MemoryScope memory(MemoryUse::weights);
  const WeightRule& rule = from.rule;
  const int64_t own = parameter.shape[0], inputs = parameter.shape[1], groups = inputs / kBlock;
  const int64_t outputs = rule.outputs > 0 ? rule.outputs : own;
  const int64_t share = own / rule.groups;  // the module's outputs in each group
  if (inputs % kBlock != 0) {
    throw DataError(
        concat(names.blocks, ": expected a multiple of ", kBlock, " inputs, as in MXFP4, found ", inputs));
  }
  const Tensor blocks = bytes_of(files, names.blocks, {rule.experts, outputs, groups, kBlock / 2});
  const Tensor scales = bytes_of(files, names.scales, {rule.experts, outputs, groups});
  Tensor wide = Tensor::empty({own, inputs});
  for (int64_t row = 0; row < own; ++row) {
    const int64_t place =
        row / share * (outputs / rule.groups) + rule.first_output / rule.groups + row % share;
    const int64_t first = (from.expert * outputs + place) * groups;
    for (int64_t group = 0; group < groups; ++group) {
      const int scale = scales.data<uint8_t>()[first + group];
      if (scale == kNoScale)
        throw DataError(concat(files.file_of(names.scales, scales.shape()).path().string(), ": ",
                               names.scales, ": expected scales below ", kNoScale, ", found ", scale));
      const uint8_t* const from_bytes = blocks.data<uint8_t>() + (first + group) * kBlock / 2;
      float* const to = wide.data() + row * inputs + group * kBlock;
      for (int64_t i = 0; i < kBlock; ++i) {
        const int byte = from_bytes[i / 2];
        to[i] = std::ldexp(kElements[static_cast<size_t>(i % 2 == 0 ? byte & 15 : byte >> 4)],
                           scale - kScaleBias);
      }
    }
  }
  parameter.set_value(to_dtype({wide}, options.dtype.value_or(DType::bf16)));
  if (!options.trainable) parameter.variable.set_requires_grad(false);
}

}  // namespace qkv::models
