#include "qkv/tensor/quantize_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/tensor/block_codes.h"
#include "qkv/tensor/block_dtypes.h"
#include "qkv/tensor/half.h"

namespace qkv {
namespace {

constexpr float kLargestHalf = 65504, kLargestBfloat = 0x1.FEp127f;

float as_half(float number) { return widened(nearest_f16(number)); }
float as_it_is(float number) { return number; }

// To the nearest integer, ties to even. |number| < 2^22.
float nearest_integer(float number) {
  constexpr float kShift = 0x1.8p23f;
  return (number + kShift) - kShift;
}

// The levels of a number divided by the scale: integers, or the steps of iq4_nl.
struct IntegerLevels {
  float lowest, highest;
  float operator()(float number) const { return nearest_integer(std::clamp(number, lowest, highest)); }
};

IntegerLevels levels_of(DType dtype) {
  const auto [lowest, highest] = integers_of(dtype);
  return {static_cast<float>(lowest), static_cast<float>(highest)};
}

struct StepLevels {
  std::array<float, 16> steps, middles;  // middles[i]: between steps i - 1 and i

  StepLevels() {
    std::ranges::copy(steps_of_iq4_nl(), steps.begin());
    for (size_t i = 1; i < 16; ++i) middles[i] = (steps[i - 1] + steps[i]) / 2;
  }
  float operator()(float number) const {
    float level = steps[0];
    for (size_t i = 1; i < 16; ++i) level += number > middles[i] ? steps[i] - steps[i - 1] : 0;
    return level;
  }
};

struct Line {
  float scale = 0, offset = 0;
};

// Sums over a group, in lanes that compilers turn into vectors.
struct Sums {
  double error = 0, numbers = 0, levels = 0, products = 0, squares = 0;
};

template <class Levels>
Sums sums_of(const float* numbers, int count, const Levels& level_of, Line line) {
  constexpr int kLanes = 8;
  float error[kLanes] = {}, of_numbers[kLanes] = {}, levels[kLanes] = {}, products[kLanes] = {},
        squares[kLanes] = {};
  for (int i = 0; i < count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float number = numbers[i + lane];
      const float level = level_of((number - line.offset) / line.scale);
      const float off = number - (line.scale * level + line.offset);
      error[lane] += off * off;
      of_numbers[lane] += number;
      levels[lane] += level;
      products[lane] += number * level;
      squares[lane] += level * level;
    }
  }
  Sums sums;
  for (int lane = 0; lane < kLanes; ++lane) {
    sums.error += double{error[lane]};
    sums.numbers += double{of_numbers[lane]};
    sums.levels += double{levels[lane]};
    sums.products += double{products[lane]};
    sums.squares += double{squares[lane]};
  }
  return sums;
}

// The squared error of a line; without a scale all numbers are the offset.
template <class Levels>
double error_of(const float* numbers, int count, const Levels& level_of, Line line) {
  if (line.scale != 0) return sums_of(numbers, count, level_of, line).error;
  double error = 0;
  for (int i = 0; i < count; ++i) {
    const double off = double{numbers[i]} - double{line.offset};
    error += off * off;
  }
  return error;
}

// Keeps the best of the lines that are tried.
template <class Levels, class Rounding>
class Search {
 public:
  Search(const float* numbers, int count, const Levels& levels, const Rounding& rounded, Line first)
      : numbers_(numbers), count_(count), levels_(levels), rounded_(rounded) {
    best_ = {rounded(first.scale), rounded(first.offset)};
    least_ = error_of(numbers, count, levels, best_);
  }

  Sums consider(Line line) {
    const Line stored{rounded_(line.scale), rounded_(line.offset)};
    if (stored.scale == 0) return {};
    const Sums sums = sums_of(numbers_, count_, levels_, stored);
    if (sums.error < least_) {
      least_ = sums.error;
      best_ = stored;
    }
    return sums;
  }
  Line best() const { return best_; }

 private:
  const float* numbers_;
  int count_;
  const Levels& levels_;
  const Rounding& rounded_;
  Line best_;
  double least_ = 0;
};

// A scale without an offset. `reaches`: the levels of the number farthest from zero, about.
template <class Levels, class Rounding>
float best_scale(const float* numbers, int count, const Levels& levels, std::initializer_list<float> reaches,
                 const Rounding& rounded) {
  float extreme = 0;
  for (int i = 0; i < count; ++i) {
    if (std::abs(numbers[i]) > std::abs(extreme)) extreme = numbers[i];
  }
  Search search(numbers, count, levels, rounded, Line{});
  if (extreme == 0) return 0;
  for (const float reach : reaches) {
    for (int i = -7; i <= 7; ++i) {
      const Sums sums = search.consider({extreme / (reach * (1 + static_cast<float>(i) / 80)), 0});
      if (sums.squares > 0) search.consider({static_cast<float>(sums.products / sums.squares), 0});
    }
  }
  return search.best().scale;
}

// A scale of 0 or more and an offset; `negative`: the offset is 0 or less.
template <class Rounding>
Line best_line(const float* numbers, int count, float highest, bool negative, const Rounding& rounded) {
  const auto [least, most] = std::minmax_element(numbers, numbers + count);
  const float bottom = negative ? std::min(*least, 0.0f) : *least;
  const IntegerLevels levels{0, highest};
  Search search(numbers, count, levels, rounded, Line{0, bottom});
  if (*most <= bottom) return search.best();
  for (int i = -10; i <= 10; ++i) {
    const Sums sums = search.consider({(*most - bottom) / (highest + 0.1f * static_cast<float>(i)), bottom});
    const double determinant = count * sums.squares - sums.levels * sums.levels;
    if (determinant <= 0) continue;
    double scale = (count * sums.products - sums.numbers * sums.levels) / determinant;
    double offset = (sums.numbers - scale * sums.levels) / count;
    if (negative && offset > 0) {
      offset = 0;
      scale = sums.products / sums.squares;
    }
    search.consider({static_cast<float>(scale), static_cast<float>(offset)});
  }
  return search.best();
}

int integer_of(float number) { return static_cast<int>(nearest_integer(number)); }

// The levels of a group as numbers without a sign, from `lowest` on.
template <class Levels>
void put_codes(const float* numbers, int count, const Levels& levels, Line line, int lowest, uint8_t* codes) {
  for (int i = 0; i < count; ++i) {
    const float level = line.scale == 0 ? 0 : levels((numbers[i] - line.offset) / line.scale);
    codes[i] = static_cast<uint8_t>(integer_of(level) - lowest);
  }
}

void put_half(float number, std::byte* to) {
  const Float16 half = nearest_f16(number);
  std::memcpy(to, &half, sizeof half);
}

void put_q8_0(const float* numbers, std::byte* to) {
  const IntegerLevels levels = levels_of(DType::q8_0);
  const float scale = std::abs(best_scale(numbers, 32, levels, {127}, as_half));
  put_half(scale, to);
  uint8_t codes[32];
  put_codes(numbers, 32, levels, {scale, 0}, 0, codes);  // negative ones as two's complements
  pack_codes(DType::q8_0, codes, to);
}

// q4_0 and q5_0: integers from -2^(bits - 1) on.
void put_symmetric(DType dtype, const float* numbers, std::byte* to) {
  const IntegerLevels levels = levels_of(dtype);
  const float scale = best_scale(numbers, 32, levels, {levels.lowest, levels.highest}, as_half);
  uint8_t codes[32];
  put_codes(numbers, 32, levels, {scale, 0}, integers_of(dtype).lowest, codes);
  put_half(scale, to);
  pack_codes(dtype, codes, to);
}

// q4_1 and q5_1.
void put_with_offset(DType dtype, const float* numbers, std::byte* to) {
  const IntegerLevels levels = levels_of(dtype);
  const Line line = best_line(numbers, 32, levels.highest, false, as_half);
  uint8_t codes[32];
  put_codes(numbers, 32, levels, line, 0, codes);
  put_half(line.scale, to);
  put_half(line.offset, to + 2);
  pack_codes(dtype, codes, to);
}

const StepLevels& step_levels() {
  static const StepLevels levels;
  return levels;
}

void put_iq4_nl(const float* numbers, std::byte* to) {
  const StepLevels& levels = step_levels();
  const float scale = best_scale(numbers, 32, levels, {levels.steps.front(), levels.steps.back()}, as_half);
  uint8_t codes[32];
  for (int i = 0; i < 32; ++i) {
    const float level = levels(scale == 0 ? 0 : numbers[i] / scale);
    codes[i] = code_of_step(level);
  }
  put_half(scale, to);
  pack_codes(DType::iq4_nl, codes, to);
}

// The groups of a block: line g is scale * scales[g] and offset * offsets[g], with the block's f16 scale and
// offset.
struct BlockScales {
  int groups, width;      // numbers of a group
  int least_scale, most;  // of the integers
  IntegerLevels levels;
  Line whole = {};
  std::array<int, 16> scales = {}, offsets = {};

  Line line(int g) const {
    const auto at = static_cast<size_t>(g);
    return {whole.scale * static_cast<float>(scales[at]), whole.offset * static_cast<float>(offsets[at])};
  }
  double error(const float* numbers) const {
    double sum = 0;
    for (int g = 0; g < groups; ++g) sum += error_of(numbers + g * width, width, levels, line(g));
    return sum;
  }

  // The integers of each group nearest to those that fit it alone.
  void start(const std::array<Line, 16>& alone) {
    const auto ratio = [this](float own, float of, int least) {
      if (of == 0) return 0;
      return integer_of(std::clamp(own / of, static_cast<float>(least), static_cast<float>(most)));
    };
    for (size_t g = 0; g < static_cast<size_t>(groups); ++g) {
      scales[g] = ratio(alone[g].scale, whole.scale, least_scale);
      offsets[g] = ratio(alone[g].offset, whole.offset, 0);
    }
  }

  // Moves the integers of each group by one where that lessens its error.
  void step(const float* numbers) {
    for (int g = 0; g < groups; ++g) {
      const auto at = static_cast<size_t>(g);
      const int scale = scales[at], offset = offsets[at];
      int best_scale = scale, best_offset = offset;
      double least = std::numeric_limits<double>::infinity();
      const int around = whole.offset == 0 ? 0 : 1;
      for (int a = -1; a <= 1; ++a) {
        for (int b = -around; b <= around; ++b) {
          scales[at] = std::clamp(scale + a, least_scale, most);
          offsets[at] = std::clamp(offset + b, 0, most);
          const double error = error_of(numbers + g * width, width, levels, line(g));
          if (error >= least) continue;
          least = error;
          best_scale = scales[at];
          best_offset = offsets[at];
        }
      }
      scales[at] = best_scale;
      offsets[at] = best_offset;
    }
  }

  // The block's f16 scale and offset with the least squared error for the present levels: of numbers
  // s u_i + o v_i, u_i a scale's integer times the level, v_i an offset's integer.
  Line fit(const float* numbers) const {
    double uu = 0, uv = 0, vv = 0, xu = 0, xv = 0;
    for (int g = 0; g < groups; ++g) {
      const Line own = line(g);
      if (own.scale == 0) continue;
      const Sums sums = sums_of(numbers + g * width, width, levels, own);
      const double a = scales[static_cast<size_t>(g)], b = offsets[static_cast<size_t>(g)];
      uu += a * a * sums.squares;
      uv += a * b * sums.levels;
      vv += b * b * width;
      xu += a * sums.products;
      xv += b * sums.numbers;
    }
    const double determinant = uu * vv - uv * uv;
    if (uu <= 0) return whole;
    if (determinant <= 0) return {as_half(static_cast<float>(xu / uu)), whole.offset};
    return {as_half(static_cast<float>((xu * vv - xv * uv) / determinant)),
            as_half(static_cast<float>((xv * uu - xu * uv) / determinant))};
  }

  // From the integers nearest to those of the groups alone; returns the squared error.
  double search(const float* numbers, const std::array<Line, 16>& alone) {
    start(alone);
    step(numbers);
    double least = error(numbers);
    for (int turn = 0; turn < 3; ++turn) {
      BlockScales next = *this;
      next.whole = fit(numbers);
      next.step(numbers);
      const double error = next.error(numbers);
      if (!(error < least)) break;
      least = error;
      *this = next;
    }
    return least;
  }

  void codes(const float* numbers, int lowest, uint8_t* to) const {
    for (int g = 0; g < groups; ++g)
      put_codes(numbers + g * width, width, levels, line(g), lowest, to + g * width);
  }
};

// q4_k and q5_k: eight groups with scales and minima of six bits.
void put_q4_k_or_q5_k(DType dtype, const float* numbers, std::byte* to) {
  BlockScales block{.groups = 8, .width = 32, .least_scale = 0, .most = 63, .levels = levels_of(dtype)};
  std::array<Line, 16> alone;
  Line most;
  for (int g = 0; g < 8; ++g) {
    Line& own = alone[static_cast<size_t>(g)];
    own = best_line(numbers + g * 32, 32, block.levels.highest, true, as_it_is);
    most = {std::max(most.scale, own.scale), std::min(most.offset, own.offset)};
  }
  block.whole = {as_half(most.scale / 63), as_half(most.offset / 63)};
  block.search(numbers, alone);
  uint8_t codes[256];
  block.codes(numbers, 0, codes);
  put_half(block.whole.scale, to);
  put_half(-block.whole.offset, to + 2);
  std::byte* const packed = to + 4;
  for (size_t g = 0; g < 4; ++g) {  // groups 4 to 7 have their top two bits above the first four's six
    const int scale = block.scales[g + 4], minimum = block.offsets[g + 4];
    packed[g] = static_cast<std::byte>(block.scales[g] | (scale >> 4) << 6);
    packed[g + 4] = static_cast<std::byte>(block.offsets[g] | (minimum >> 4) << 6);
    packed[g + 8] = static_cast<std::byte>((scale & 15) | (minimum & 15) << 4);
  }
  pack_codes(dtype, codes, to);
}

void put_q6_k(const float* numbers, std::byte* to) {
  BlockScales block{
      .groups = 16, .width = 16, .least_scale = -128, .most = 127, .levels = levels_of(DType::q6_k)};
  std::array<Line, 16> alone;
  float extreme = 0;
  for (int g = 0; g < 16; ++g) {
    float& own = alone[static_cast<size_t>(g)].scale;
    own =
        best_scale(numbers + g * 16, 16, block.levels, {block.levels.lowest, block.levels.highest}, as_it_is);
    if (std::abs(own) > std::abs(extreme)) extreme = own;
  }
  double least = std::numeric_limits<double>::infinity();
  for (const float reach : {-128.0f, -126.0f, -122.0f, 127.0f}) {
    BlockScales other = block;
    other.whole.scale = as_half(extreme / reach);
    const double error = other.search(numbers, alone);
    if (error >= least) continue;
    least = error;
    block = other;
  }
  uint8_t codes[256];
  block.codes(numbers, -32, codes);
  pack_codes(DType::q6_k, codes, to);
  for (int g = 0; g < 16; ++g) to[192 + g] = static_cast<std::byte>(block.scales[static_cast<size_t>(g)]);
  put_half(block.whole.scale, to + 208);
}

void put_block(DType dtype, const float* numbers, std::byte* to) {
  switch (dtype) {
    case DType::q8_0:
      return put_q8_0(numbers, to);
    case DType::q4_0:
    case DType::q5_0:
      return put_symmetric(dtype, numbers, to);
    case DType::q4_1:
    case DType::q5_1:
      return put_with_offset(dtype, numbers, to);
    case DType::iq4_nl:
      return put_iq4_nl(numbers, to);
    case DType::q4_k:
    case DType::q5_k:
      return put_q4_k_or_q5_k(dtype, numbers, to);
    case DType::q6_k:
      return put_q6_k(numbers, to);
    case DType::f16:
      return put_half(*numbers, to);
    case DType::bf16: {
      const auto bits = std::bit_cast<uint32_t>(*numbers);
      const auto half = static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
      std::memcpy(to, &half, sizeof half);
      return;
    }
    default:
      std::memcpy(to, numbers, sizeof *numbers);
  }
}

}  // namespace

void quantize_blocks(DType dtype, const float* numbers, int64_t count, void* to) {
  const DTypeLayout layout = layout_of(dtype);
  const bool wide = dtype == DType::f32 || dtype == DType::bf16;
  if (!wide && dtype != DType::f16 && !in_blocks(dtype))
    throw UsageError(concat("quantize_blocks: expected f32, bf16, f16 or blocks, found ", layout.name));
  if (count < 0 || count % layout.block != 0) {
    throw UsageError(concat("quantize_blocks: expected a multiple of ", layout.block, " numbers for ",
                            layout.name, ", found ", count));
  }
  const float most = dtype == DType::f32    ? std::numeric_limits<float>::max()
                     : dtype == DType::bf16 ? kLargestBfloat
                                            : kLargestHalf;
  for (int64_t i = 0; i < count; ++i) {
    if (std::abs(numbers[i]) <= most) continue;
    throw NumericError(
        concat("expected finite numbers up to ", most, " for ", layout.name, ", found ", numbers[i]));
  }
  constexpr int64_t kGrain = 4096;  // numbers
  parallel_for(count / layout.block, kGrain / layout.block, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      put_block(dtype, numbers + i * layout.block,
                static_cast<std::byte*>(to) + static_cast<size_t>(i) * layout.bytes);
    }
  });
}

int8_t nearest_step(float level) { return static_cast<int8_t>(step_levels()(level)); }

}  // namespace qkv
