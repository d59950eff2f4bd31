#include "qkv/nn/positions.h"
#include "qkv/ops/rotary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <tuple>

namespace qkv::nn {

Tensor sinusoidal_positions(PositionKind kind, int64_t count, int64_t d_model) {
  const bool inclusive = kind == PositionKind::sinusoidal_inclusive;
  if (!inclusive && kind != PositionKind::sinusoidal_interleaved && kind != PositionKind::sinusoidal_halves) {
    throw UsageError("sinusoidal_positions: expected a sinusoidal kind, found another");
  }
  Tensor table = Tensor::empty({count, d_model});
  const int64_t sines = (d_model + 1) / 2;
  if (inclusive && (d_model < 4 || d_model % 2 != 0))
    throw UsageError(concat("sinusoidal_positions: expected an even width of at least 4, found ", d_model));
  const double last = inclusive ? static_cast<double>(sines - 1) : static_cast<double>(d_model) / 2;
  for (int64_t i = 0; i < sines; ++i) {
    const double frequency = std::pow(10000.0, -static_cast<double>(i) / last);
    const int64_t sine = kind == PositionKind::sinusoidal_interleaved ? 2 * i : i;
    const int64_t cosine = kind == PositionKind::sinusoidal_interleaved ? 2 * i + 1 : sines + i;
    for (int64_t place = 0; place < count; ++place) {
      const double angle = static_cast<double>(place) * frequency;
      table.data()[place * d_model + sine] = static_cast<float>(std::sin(angle));
      if (cosine < d_model) table.data()[place * d_model + cosine] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

namespace {

// The angle per position. In single precision, as the models with these angles were trained.
float frequency(const PositionOptions& options, int64_t i, int64_t d) {
  if (options.rotary_angles > 0 && i >= options.rotary_angles) return 0;
  constexpr double kTurn = 2 * std::numbers::pi;
  const RotaryScaling& scaling = options.rotary_scaling;
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(d);
  const auto power = static_cast<float>(std::pow(options.rotary_base, double{exponent}));
  const float plain = 1.0f / power;
  const auto factor = static_cast<float>(scaling.factor);
  const auto first = static_cast<double>(scaling.first_positions);
  switch (scaling.kind) {
    case RotaryScalingKind::none:
      return plain;
    case RotaryScalingKind::linear:
      return plain / factor;
    case RotaryScalingKind::llama3: {
      const auto low = static_cast<float>(scaling.low), high = static_cast<float>(scaling.high);
      const float turns = static_cast<float>(first) / (static_cast<float>(kTurn) / plain);
      if (turns < low) return plain / factor;
      if (turns >= high) return plain;  // also where the two factors are equal (Llama 4)
      const float fast = (turns - low) / (high - low);
      return (1 - fast) * plain / factor + fast * plain;
    }
    case RotaryScalingKind::yarn: {
      // The frequency that makes `turns` rotations within first_positions, as a fractional index.
      const auto angle_of = [&](double turns) {
        return static_cast<double>(d) * std::log(first / (turns * kTurn)) /
               (2 * std::log(options.rotary_base));
      };
      const double first_index = angle_of(scaling.fast), last_index = angle_of(scaling.slow);
      const double begin = std::max(0.0, scaling.truncate ? std::floor(first_index) : first_index);
      double end =
          std::min(static_cast<double>(d - 1), scaling.truncate ? std::ceil(last_index) : last_index);
      if (end == begin) end += 0.001;
      const auto slow =
          static_cast<float>(std::clamp((static_cast<double>(i) - begin) / (end - begin), 0.0, 1.0));
      return 1.0f / (factor * power) * slow + plain * (1 - slow);
    }
    case RotaryScalingKind::longrope:
      return 1.0f / (static_cast<float>(scaling.short_factors[static_cast<size_t>(i)]) * power);
  }
  return plain;
}

}  // namespace

double query_growth(const RotaryScaling& scaling, int64_t position) {
  if (scaling.query_growth == 0) return 1;
  const int64_t lengths = position / scaling.first_positions;
  return 1 + scaling.query_growth * std::log(1 + static_cast<double>(lengths));
}

RotaryTable rotary_table(const PositionOptions& options, int64_t d, int64_t count) {
  const RotaryScaling& scaling = options.rotary_scaling;
  const double numbers[] = {options.rotary_base, scaling.factor, scaling.low,       scaling.high,
                            scaling.slow,        scaling.fast,   scaling.magnitude, scaling.query_growth};
  if (d < 2 || d % 2 != 0 || count < 0 || !(options.rotary_base > 0) || !(scaling.factor > 0) ||
      !std::ranges::all_of(numbers, [](double x) { return std::isfinite(x); })) {
    throw UsageError(
        concat("rotary: expected an even width, 0 positions or more, a positive base and a "
               "positive factor, found ",
               d, ", ", count, ", ", options.rotary_base, " and ", scaling.factor));
  }
  if (scaling.query_growth != 0 && scaling.first_positions < 1)
    throw UsageError(concat("rotary: query_growth: expected first_positions of at least 1, found ",
                            scaling.first_positions));
  if (scaling.kind == RotaryScalingKind::longrope) {
    if (2 * std::ssize(scaling.short_factors) != d)
      throw UsageError(concat("rotary: short_factors: expected ", d / 2, " numbers, found ",
                              scaling.short_factors.size()));
    if (count > scaling.first_positions)
      throw UsageError(concat("rotary: longrope: expected at most ", scaling.first_positions,
                              " positions, found ", count));
  }
  static std::mutex mutex;
  static auto* tables = new std::map<std::tuple<double, RotaryScaling, int64_t, int64_t, bool>, RotaryTable>;
  const std::lock_guard lock(mutex);
  RotaryTable& table = (*tables)[{options.rotary_base, options.rotary_scaling, d, options.rotary_angles,
                                  options.rotary_backwards}];
  const int64_t half = d / 2, places = table.cosines.defined() ? table.cosines.rows() : 0;
  if (table.cosines.defined() && places >= count) return table;
  const int64_t longer = std::max(count, std::max<int64_t>(256, 2 * places));
  table = {Tensor::empty({longer, half}), Tensor::empty({longer, half})};
  const auto magnitude = [&](int64_t place) { return scaling.magnitude * query_growth(scaling, place); };
  for (int64_t i = 0; i < half; ++i) {
    const float step = options.rotary_backwards ? -frequency(options, i, d) : frequency(options, i, d);
    for (int64_t place = 0; place < longer; ++place) {
      const float angle = static_cast<float>(place) * step;
      table.cosines.data()[place * half + i] = static_cast<float>(magnitude(place) * std::cos(double{angle}));
      table.sines.data()[place * half + i] = static_cast<float>(magnitude(place) * std::sin(double{angle}));
    }
  }
  return table;
}

Tensor alibi_slopes(int64_t heads) {
  if (heads < 1) throw UsageError(concat("alibi_slopes: expected at least 1 head, found ", heads));
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  const auto slope = [](int64_t number, int64_t of) {
    return static_cast<float>(std::exp2(-8.0 * static_cast<double>(number) / static_cast<double>(of)));
  };
  Tensor slopes = Tensor::empty({heads});
  for (int64_t h = 0; h < heads; ++h) {
    slopes.data()[h] = h < power ? slope(h + 1, power) : slope(2 * (h - power) + 1, 2 * power);
  }
  return slopes;
}

Tensor position_ids(const Offsets& offsets) { return position_ids(offsets, {}); }

Tensor position_ids(const Offsets& offsets, const Tensor& first) {
  if (first.defined() && (first.dtype() != DType::i32 || first.shape() != Shape{offsets.sequences()})) {
    throw ShapeError(concat("position_ids: expected first i32 [", offsets.sequences(), "], found ",
                            name_of(first.dtype()), " ", first.shape()));
  }
  Tensor ids = Tensor::empty({offsets.tokens()}, DType::i32);
  for (int64_t sequence = 0; sequence < offsets.sequences(); ++sequence) {
    const int32_t begin = first.defined() ? first.data<int32_t>()[sequence] : 0;
    const int64_t length = offsets.length(sequence);
    if (begin < 0 || begin + length > INT32_MAX) {
      throw ShapeError(
          concat("position_ids: expected positions from 0 to 2^31 - 1, found ", length, " from ", begin));
    }
    for (int64_t i = 0; i < length; ++i) {
      ids.data<int32_t>()[offsets.begin(sequence) + i] = begin + static_cast<int32_t>(i);
    }
  }
  return ids;
}

}  // namespace qkv::nn
