#include "qkv/models/audio_stem.h"

#include <algorithm>

#include "qkv/nn/positions.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/general/prepend.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/norm.h"
#include "qkv/ops/require.h"

namespace qkv::models {
namespace {

constexpr int64_t kTaps = 3, kStride = 2;

// The frames before, at and after each frame, side by side: [frames, kTaps * mel_bins].
Tensor neighbours(const Tensor& frames, const Offsets& offsets) {
  const int64_t bins = frames.cols();
  Tensor rows = Tensor::zeros({frames.rows(), kTaps * bins});
  for (int64_t s = 0; s < offsets.sequences(); ++s) {
    const int64_t begin = offsets.begin(s), end = offsets.end(s);
    for (int64_t frame = begin; frame < end; ++frame) {
      for (int64_t tap = 0; tap < kTaps; ++tap) {
        const int64_t from = frame + tap - 1;
        if (from < begin || from >= end) continue;
        const auto source = frames.slice_rows(from, 1).values();
        std::ranges::copy(source, rows.data() + frame * kTaps * bins + tap * bins);
      }
    }
  }
  return rows;
}

// Likewise of every second row, which may have a gradient: x [rows, features] -> [rows / kStride, kTaps *
// features].
Variable strided_neighbours(const Variable& x, const Offsets& offsets) {
  const int64_t features = x.value().cols();
  const Variable zeros(Tensor::zeros({1, features}, DType::f32, x.value().device()));
  std::vector<int32_t> rows;  // of x after the row of zeros
  for (int64_t s = 0; s < offsets.sequences(); ++s) {
    const int64_t begin = offsets.begin(s), end = offsets.end(s);
    for (int64_t row = begin; row < end; row += kStride) {
      for (int64_t from = row - 1; from < row - 1 + kTaps; ++from)
        rows.push_back(from < begin || from >= end ? 0 : static_cast<int32_t>(from + 1));
    }
  }
  const auto count = static_cast<int64_t>(rows.size());
  // embedding() selects rows of a table.
  return reshape(embedding(prepend(zeros, x, 1), Tensor::from(rows, {count}), {}, {}),
                 {count / kTaps, kTaps * features});
}

}  // namespace

Offsets audio_rows(const Offsets& frames) {
  std::vector<int32_t> rows = frames.values();
  for (int32_t& offset : rows) offset /= static_cast<int32_t>(kStride);
  return Offsets(std::move(rows));
}

AudioStem::AudioStem(const AudioStemOptions& options)
    : options_(options),
      conv1_({.inputs = kTaps * options.mel_bins, .outputs = options.d_model}),
      conv2_({.inputs = kTaps * options.d_model, .outputs = options.d_model}),
      positions_(Shape{options.positions, options.d_model},
                 nn::Initializer{nn::Initializer::Kind::normal, 0.02f}) {
  if (options.positions < 1)  // layers check the other sizes
    throw UsageError(concat("audio: positions: expected at least 1, found ", options.positions));
}

Variable AudioStem::operator()(const Tensor& frames, const Offsets& offsets,
                               nn::ForwardContext& context) const {
  if (frames.rank() != 2 || frames.cols() != options_.mel_bins || frames.rows() != offsets.tokens())
    throw ShapeError(concat("audio: expected frames [", offsets.tokens(), ", ", options_.mel_bins,
                            "], found ", frames.shape()));
  for (int64_t s = 0; s < offsets.sequences(); ++s) {
    const int64_t length = offsets.length(s);
    if (length % kStride != 0)
      throw UsageError(concat("audio: expected an even number of frames, found ", length));
    if (length / kStride > options_.positions) {
      throw UsageError(
          concat("audio: expected at most ", kStride * options_.positions, " frames, found ", length));
    }
  }
  const Offsets rows = audio_rows(offsets);
  const Device device = positions_.variable.value().device();
  const Variable x =
      conv1_(from_host(neighbours(frames, offsets), device), kernels::Activation::gelu_exact, {}, context);
  const Variable y = conv2_(strided_neighbours(x, offsets), kernels::Activation::gelu_exact, {}, context);
  return residual(y, embedding(positions_.variable, nn::position_ids(rows), {}, {}));
}

void AudioStem::visit(const nn::ParameterVisitor& visitor) const {
  nn::visit_part(visitor, "conv1", conv1_);
  nn::visit_part(visitor, "conv2", conv2_);
  visitor("embed_positions.weight", positions_);
}

}  // namespace qkv::models
