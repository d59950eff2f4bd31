// Operands of bf16: a kernel gives what it gives for the same numbers in f32, rounded once. On all devices
// but the CPU, whose activations are f32.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/base/philox.h"
#include "qkv/kernels/dispatch.h"
#include "tests/kernels/rowwise.h"
#include "tests/support/devices.h"
#include "tests/support/random_blocks.h"

namespace qkv::kernels {
namespace {

constexpr Accumulate kEither[] = {Accumulate::no, Accumulate::yes};

// Numbers that bf16 holds exactly.
Tensor exact_numbers(int64_t count, uint64_t seed, DType dtype) {
  Tensor numbers = Tensor::empty({count}, dtype);
  RandomStream random(seed);
  for (int64_t i = 0; i < count; ++i) {
    const float number = std::floor(256 * random.uniform() - 128) / 64;
    if (dtype == DType::f32) {
      numbers.data()[i] = number;
    } else {
      numbers.data<BFloat16>()[i] = {static_cast<uint16_t>(std::bit_cast<uint32_t>(number) >> 16)};
    }
  }
  return numbers;
}

// One call of a kernel on a device, with activations of one of the two dtypes.
class Bf16Call {
 public:
  Bf16Call(Device device, DType activations)
      : kernels(backend(device)), dtype(activations), device_(device) {}

  const Backend& kernels;
  const DType dtype;

  Elements input(int64_t count, uint64_t seed) { return elements(place(exact_numbers(count, seed, dtype))); }
  MutableElements output(int64_t count) {
    Tensor& placed = place(exact_numbers(count, 99, dtype));
    outputs_.push_back(placed);
    return mutable_elements(placed);
  }
  // Operands that are always f32, such as weights and their gradients.
  const float* weights(int64_t count, uint64_t seed) { return scratch(count, seed); }
  float* scratch(int64_t count, uint64_t seed = 98) {
    return address(place(exact_numbers(count, seed, DType::f32)));
  }
  float* wide_output(int64_t count) {
    float* const to = scratch(count);
    outputs_.push_back(tensors_.back());
    return to;
  }
  template <class T>
  const T* input(const std::vector<T>& values) {
    return address<T>(place(Tensor::from(values, {std::ssize(values)})));
  }
  DeviceAddress<void> bytes(size_t count) {
    return DeviceAddress<void>(address<void>(place(Tensor::zeros({static_cast<int64_t>(count)}, DType::u8))));
  }

  struct Number {
    double value;
    bool rounded;  // to bf16
  };
  std::vector<Number> results() const {
    std::vector<Number> all;
    for (const Tensor& output : outputs_) {
      const Tensor host = to_host(output);
      for (int64_t i = 0; i < host.numel(); ++i) {
        if (host.dtype() == DType::f32) {
          all.push_back({host.data()[i], false});
        } else {
          all.push_back({std::bit_cast<float>(uint32_t{host.data<BFloat16>()[i].bits} << 16), true});
        }
      }
    }
    return all;
  }

 private:
  Tensor& place(const Tensor& host) {
    tensors_.push_back(from_host(host, device_));
    return tensors_.back();
  }

  Device device_;
  std::vector<Tensor> tensors_, outputs_;
};

// `within`: of numbers whose intermediate results are rounded too; relative to the number, or to 1.
template <class Kernel>
void expect_rounding(const std::string& what, const Kernel& kernel, double within = 0) {
  for (const Device device : kDevices) {
    if (device == Device::cpu || !testing::has_backend(device)) continue;
    const auto run = [&](DType dtype) {
      Bf16Call call(device, dtype);
      kernel(call);
      return call.results();
    };
    const auto expected = run(DType::f32), found = run(DType::bf16);
    ASSERT_EQ(found.size(), expected.size());
    ASSERT_FALSE(found.empty());
    bool any = false;
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i].value == expected[i].value) {  // equal infinities too
        any = any || found[i].value != 0;
        continue;
      }
      const double size = std::abs(expected[i].value);
      const double tolerance = within > 0         ? within * std::max(1.0, size)
                               : found[i].rounded ? 0x1p-8 * size + 1e-5
                                                  : 1e-5 * std::max(1.0, size);
      ASSERT_NEAR(found[i].value, expected[i].value, tolerance)
          << name_of(device) << ", " << what << " at " << i;
      any = any || found[i].value != 0;
    }
    EXPECT_TRUE(any) << what;
  }
}

TEST(BackendsBf16, Products) {
  for (const auto& [rows, inner, columns] :
       {std::array<int64_t, 3>{1, 5, 7}, {3, 16, 9}, {9, 70, 12}, {40, 33, 20}}) {
    for (const Accumulate accumulate : kEither) {
      const int64_t a_stride = inner + 2, c_stride = columns + 1;
      const auto left = [&](Bf16Call& call) {
        return Matrix{call.input(rows * a_stride, 1), rows, inner, a_stride};
      };
      const auto result = [&](Bf16Call& call) {
        return MutableMatrix{call.output(rows * c_stride), rows, columns, c_stride};
      };
      for (const DType operands : {DType::f32, DType::bf16}) {
        expect_rounding("packed weights", [&](Bf16Call& call) {
          const Matrix block{call.weights(columns * inner, 2), columns, inner, inner};
          call.kernels.matmul(left(call), *call.kernels.pack_transposed({&block, 1}, operands),
                              call.weights(columns, 4), result(call), accumulate);
        });
        // A gradient of a weight is f32.
        expect_rounding("gradient of a weight", [&](Bf16Call& call) {
          call.kernels.matmul_transposed_a(
              left(call), {call.input(rows * columns, 2), rows, columns, columns},
              {call.wide_output(inner * columns), inner, columns, columns}, accumulate, operands);
        });
      }
      expect_rounding("f32 result of bf16 rows", [&](Bf16Call& call) {
        const Matrix block{call.weights(columns * inner, 2), columns, inner, inner};
        call.kernels.matmul(left(call), *call.kernels.pack_transposed({&block, 1}, DType::bf16), nullptr,
                            {call.wide_output(rows * columns), rows, columns, columns}, accumulate);
      });
      expect_rounding("weights in place", [&](Bf16Call& call) {
        const WeightRows blocks[] = {
            {call.weights(3 * inner, 2), DType::f32, nullptr, 3, inner},
            {call.weights((columns - 3) * inner, 3), DType::f32, nullptr, columns - 3, inner}};
        call.kernels.matmul(left(call), *call.kernels.view(std::span(blocks)), call.weights(columns, 4),
                            result(call), accumulate);
      });
    }
  }
}

TEST(BackendsBf16, ProductsWithRoundedWeights) {
  for (const int64_t rows : {3, 20}) {
    constexpr int64_t kOutputs = 5, kInner = 512;
    for (const DType dtype : {DType::bf16, DType::f16, DType::i8, DType::q8_0, DType::q4_k}) {
      const std::vector<uint8_t> blocks =
          in_blocks(dtype) ? testing::random_blocks(dtype, kOutputs * kInner, 2) : std::vector<uint8_t>{0};
      expect_rounding(concat("product with ", name_of(dtype)), [&](Bf16Call& call) {
        WeightRows w{call.input(blocks), dtype, nullptr, kOutputs, kInner};
        if (!in_blocks(dtype)) {
          const float* const wide = call.weights(kOutputs * kInner, 2);
          // Floats, each of which holds two or four of them.
          float* const to = call.scratch(kOutputs * kInner);
          float* const scales = call.scratch(kOutputs);
          w.data = to;
          if (dtype == DType::bf16)
            call.kernels.round_to_bf16(wide, reinterpret_cast<BFloat16*>(to), kOutputs * kInner);
          if (dtype == DType::f16)
            call.kernels.round_to_f16(wide, reinterpret_cast<Float16*>(to), kOutputs * kInner);
          if (dtype == DType::i8) {
            call.kernels.quantize_rows(wide, kOutputs, kInner, reinterpret_cast<int8_t*>(to), scales);
            w.scales = scales;
          }
        }
        call.kernels.matmul({call.input(rows * kInner, 1), rows, kInner, kInner}, *call.kernels.view({&w, 1}),
                            nullptr, {call.output(rows * kOutputs), rows, kOutputs, kOutputs},
                            Accumulate::yes);
      });
    }
  }
}

TEST(BackendsBf16, NormsAndResidualSums) {
  constexpr int64_t kRows = 6, kCols = 19;
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    for (const Accumulate accumulate : kEither) {
      expect_rounding("norm", [&](Bf16Call& call) {
        const Elements x = call.input(kRows * kCols, 1), residual = call.input(kRows * kCols, 2);
        const float* const weight = call.weights(kCols, 3);
        float* const mean = call.wide_output(kRows);
        float* const rstd = call.wide_output(kRows);
        call.kernels.norm_forward(
            {.x = x,
             .residual = residual,
             .dropout = some_dropout(0.3f),
             .kind = kind,
             .weight = weight,
             .bias = kind == NormKind::layer ? call.weights(kCols, 4) : nullptr,
             .rows = kRows,
             .cols = kCols},
            {.sum = call.output(kRows * kCols), .y = call.output(kRows * kCols), .mean = mean, .rstd = rstd});
        call.kernels.norm_backward(
            {.kind = kind,
             .z = x,
             .weight = weight,
             .mean = mean,
             .rstd = rstd,
             .dy = call.input(kRows * kCols, 5),
             .rows = kRows,
             .cols = kCols,
             .dz = call.output(kRows * kCols),
             .dz_accumulate = accumulate,
             .residual_gradient = call.output(kRows * kCols),
             .residual_accumulate = accumulate,
             .dropout = some_dropout(0.3f),
             .weight_gradient = call.wide_output(kCols),
             .bias_gradient = kind == NormKind::layer ? call.wide_output(kCols) : nullptr,
             .weight_accumulate = accumulate,
             .bias_accumulate = accumulate});
      });
    }
  }
  // In place, as blocks use it: the sum over the residual, and dz over dy.
  expect_rounding("norm in place", [&](Bf16Call& call) {
    const MutableElements residual = call.output(kRows * kCols), dy = call.output(kRows * kCols);
    const float* const weight = call.weights(kCols, 3);
    float* const mean = call.wide_output(kRows);
    float* const rstd = call.wide_output(kRows);
    call.kernels.norm_forward({.x = call.input(kRows * kCols, 1),
                               .residual = residual,
                               .weight = weight,
                               .rows = kRows,
                               .cols = kCols},
                              {.sum = residual, .y = call.output(kRows * kCols), .mean = mean, .rstd = rstd});
    call.kernels.norm_backward({.z = call.input(kRows * kCols, 1),
                                .weight = weight,
                                .mean = mean,
                                .rstd = rstd,
                                .dy = dy,
                                .rows = kRows,
                                .cols = kCols,
                                .dz = dy});
  });
}

TEST(BackendsBf16, ActivationsAndGates) {
  constexpr int64_t kRows = 5, kCols = 23, kCount = kRows * kCols;
  const Dropout dropout = some_dropout(0.3f);
  for (const Activation activation :
       {Activation::relu, Activation::gelu_exact, Activation::gelu_tanh, Activation::silu, Activation::tanh,
        Activation::relu_squared, Activation::quick_gelu}) {
    for (const Accumulate accumulate : kEither) {
      expect_rounding("activations", [&](Bf16Call& call) {
        const Elements x = call.input(kCount, 1), dy = call.input(kCount, 2);
        call.kernels.activate(activation, x, call.output(kCount), kRows, kCols, dropout);
        call.kernels.activate_backward(activation, x, dy, call.output(kCount), kRows, kCols, dropout,
                                       accumulate);
        call.kernels.dropout_backward(dy, call.output(kCount), kRows, kCols, dropout, accumulate);
        call.kernels.relu_backward(x, dy, 1.25f, call.output(kCount), kCount);
        const Gated gated{.activation = activation,
                          .gate = call.input(2 * kCount, 3),
                          .x = call.input(2 * kCount, 4),
                          .gate_stride = 2 * kCols,
                          .x_stride = 2 * kCols,
                          .rows = kRows,
                          .cols = kCols,
                          .dropout = dropout};
        call.kernels.gated(gated, call.output(kCount));
        call.kernels.gated_backward(gated, dy, {call.output(kCount), kCols, accumulate},
                                    {call.output(2 * kCount), 2 * kCols, accumulate});
      });
    }
  }
}

TEST(BackendsBf16, CopiesSumsAndArithmetic) {
  constexpr int64_t kRows = 7, kCols = 11, kCount = kRows * kCols;
  for (const Accumulate accumulate : kEither) {
    expect_rounding("copies", [&](Bf16Call& call) {
      const Elements x = call.input(kCount, 1), y = call.input(kCount, 2);
      call.kernels.copy(x, call.output(kCount), kCount, accumulate);
      call.kernels.copy(x, call.wide_output(kCount), kCount, accumulate);
      call.kernels.copy(call.weights(kCount, 3), call.output(kCount), kCount, accumulate);
      call.kernels.scale(x, 0.7f, call.output(kCount), kCount, accumulate);
      call.kernels.scale_by(x, call.weights(1, 4), call.output(kCount), kCount, accumulate);
      call.kernels.add(x, y, call.output(kCount), kCount);
      call.kernels.column_sums(x, kRows, kCols - 2, kCols, call.wide_output(kCols - 2), accumulate);
      call.kernels.sum_axis({.x = x,
                             .outer = kRows,
                             .count = kCols,
                             .factor = 0.5f,
                             .y = call.output(kRows),
                             .accumulate = accumulate});
      for (const BinaryOp op : {BinaryOp::add, BinaryOp::subtract, BinaryOp::multiply}) {
        call.kernels.binary({.op = op,
                             .extents = {1, 1, 1, kRows, kCols},
                             .x_strides = {0, 0, 0, kCols, 1},
                             .y_strides = {0, 0, 0, 0, 1},
                             .z_strides = {0, 0, 0, kCols, 1},
                             .x = x,
                             .y = call.weights(kCols, 5),
                             .z = call.output(kCount),
                             .accumulate = accumulate});
      }
    });
  }
}

TEST(BackendsBf16, NumbersThatAreNotFinite) {
  for (const Device device : kDevices) {
    if (device == Device::cpu || !testing::has_backend(device)) continue;
    for (const auto bits : std::vector<uint16_t>{0x7F80, 0xFF80, 0x7FC0, 0x7F7F}) {
      Tensor host = Tensor::zeros({300}, DType::bf16);
      host.data<BFloat16>()[299] = {bits};
      const Tensor x = from_host(host, device);
      Tensor finite = Tensor::empty({1}, DType::i32, device), wide = Tensor::empty({300}, DType::f32, device);
      backend(device).all_finite(elements(x), 300, address<int32_t>(finite));
      EXPECT_EQ(to_host(finite).values<int32_t>()[0], bits == 0x7F7F ? 1 : 0) << bits;
      // A NaN and an infinity stay ones on their way to f32 and back.
      backend(device).copy(elements(x), mutable_elements(wide), 300, Accumulate::no);
      Tensor back = Tensor::empty({300}, DType::bf16, device);
      backend(device).copy(elements(wide), mutable_elements(back), 300, Accumulate::no);
      EXPECT_EQ(to_host(back).values<BFloat16>()[299].bits, bits);
    }
  }
}

TEST(BackendsBf16, RoundsToNearestEven) {
  for (const Device device : kDevices) {
    if (!testing::has_backend(device)) continue;  // copies convert on the CPU, too
    const std::vector<float> numbers{1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 1 + 0x1p-8f + 0x1p-20f, -1 - 0x1p-9f,
                                     3e38f};
    const std::vector<uint16_t> expected{0x3F80, 0x3F82, 0x3F81, 0xBF80, 0x7F62};
    const Tensor x = from_host(Tensor::from(numbers, {5}), device);
    Tensor y = Tensor::empty({5}, DType::bf16, device);
    backend(device).copy(elements(x), mutable_elements(y), 5, Accumulate::no);
    const Tensor host = to_host(y);
    for (size_t i = 0; i < 5; ++i)
      EXPECT_EQ(host.values<BFloat16>()[i].bits, expected[i]) << name_of(device) << i;
    // 1 + (1 + 2^-8) is rounded once.
    Tensor sum = from_host(Tensor::full({5}, 1.0f), device);
    backend(device).copy(elements(y), mutable_elements(sum), 5, Accumulate::yes);
    EXPECT_EQ(to_host(sum).values()[1], 2 + 0x1p-6f);
    backend(device).copy(elements(x), mutable_elements(y), 5, Accumulate::yes);
    EXPECT_EQ(to_host(y).values<BFloat16>()[3].bits, 0xC000);
  }
}

TEST(BackendsBf16, Rotary) {
  constexpr int64_t kRows = 6, kHeads = 3, kFeatures = 10, kStride = kHeads * kFeatures + 2;
  for (const Turn direction : {Turn::forward, Turn::back}) {
    for (const Accumulate accumulate : kEither) {
      expect_rounding("rotary", [&](Bf16Call& call) {
        call.kernels.rotary({.x = call.input(kRows * kStride, 1),
                             .x_stride = kStride,
                             .y = call.output(kRows * kStride),
                             .y_stride = kStride,
                             .rows = kRows,
                             .heads = kHeads,
                             .d = kFeatures,
                             .rotated = 8,
                             .cosines = call.weights(9 * 4, 2),
                             .sines = call.weights(9 * 4, 3),
                             .positions = call.input(std::vector<int32_t>{0, 3, 1, 8, 2, 5}),
                             .direction = direction,
                             .accumulate = accumulate});
      });
    }
  }
}

// Tiles and ordinary threads; weights of the softmax are rounded to bf16 in tiles.
TEST(BackendsBf16, Attention) {
  constexpr int64_t kHeads = 4, kKeyHeads = 2;
  for (const auto& [queries, keys, d] :
       {std::array<int64_t, 3>{9, 9, 8}, {70, 70, 40}, {70, 40, 200}, {3, 5, 130}, {2, 20, 7}}) {
    const std::vector<int32_t> query_offsets{0, static_cast<int32_t>(queries),
                                             static_cast<int32_t>(queries + 3)};
    const std::vector<int32_t> key_offsets{0, static_cast<int32_t>(keys), static_cast<int32_t>(keys + 3)};
    const int64_t query_tokens = queries + 3, key_tokens = keys + 3, d_v = d + 1;
    for (const bool masked : {false, true}) {
      expect_rounding(
          concat("attention of ", queries, " queries, ", d, " features"),
          [&](Bf16Call& call) {
            AttentionShape shape{.sequences = 2,
                                 .query_offsets = query_offsets.data(),
                                 .key_offsets = key_offsets.data(),
                                 .heads = kHeads,
                                 .key_heads = kKeyHeads,
                                 .d_k = d,
                                 .d_v = d_v,
                                 .scale = 0.5f / std::sqrt(static_cast<float>(d))};
            if (masked) {
              shape.causal = true;
              shape.window = 6;
              shape.sinks = call.weights(kHeads, 9);
              shape.dropout = some_dropout(0.2f);
            }
            // Columns of one projection.
            const int64_t query_stride = kHeads * d + 3, key_stride = kKeyHeads * d + 2,
                          stride = kHeads * d_v + 1;
            const AttentionInput input{.query = call.input(query_tokens * query_stride, 1),
                                       .key = call.input(key_tokens * key_stride, 2),
                                       .value = call.input(key_tokens * kKeyHeads * d_v, 3),
                                       .query_stride = query_stride,
                                       .key_stride = key_stride,
                                       .value_stride = kKeyHeads * d_v};
            const MutableElements output = call.output(query_tokens * stride);
            float* const log_sum_exp = call.wide_output(kHeads * query_tokens);
            call.kernels.attention_forward(
                shape, input, {.output = output, .output_stride = stride, .log_sum_exp = log_sum_exp});
            call.kernels.attention_backward(shape, input, output, stride, log_sum_exp,
                                            call.input(query_tokens * stride, 4), stride,
                                            {.query = call.output(query_tokens * kHeads * d),
                                             .key = call.output(key_tokens * kKeyHeads * d),
                                             .value = call.output(key_tokens * kKeyHeads * d_v),
                                             .query_stride = kHeads * d,
                                             .key_stride = kKeyHeads * d,
                                             .value_stride = kKeyHeads * d_v,
                                             .key_accumulate = Accumulate::yes,
                                             .sinks = masked ? call.wide_output(kHeads) : nullptr});
          },
          0.03);
    }
  }
}

TEST(BackendsBf16, CachedAttention) {
  constexpr int64_t kHeads = 4, kKeyHeads = 2, kFeatures = 16, kWidth = kKeyHeads * 2 * kFeatures;
  constexpr int64_t kPositions = 2 * CacheBlockTable::kPositions;
  for (const DType dtype : {DType::f32, DType::bf16, DType::q8_0}) {
    expect_rounding(concat("attention to a cache of ", name_of(dtype)), [&](Bf16Call& call) {
      const std::vector<DeviceAddress<void>> blocks{call.bytes(bytes_of(dtype, kPositions / 2 * kWidth)),
                                                    call.bytes(bytes_of(dtype, kPositions / 2 * kWidth))};
      std::vector<int32_t> numbers;
      for (int32_t i = 0; i < kPositions; ++i)
        numbers.push_back((i * 5 + 1) % static_cast<int32_t>(kPositions));
      const CacheRow all{blocks, numbers}, some{blocks, std::span(numbers).first(3)};
      call.kernels.store_cached({.key_width = kWidth / 2,
                                 .value_width = kWidth / 2,
                                 .keys = call.input(kPositions * kWidth, 1),
                                 .values = call.input(kPositions * kWidth, 2),
                                 .key_stride = kWidth,
                                 .value_stride = kWidth,
                                 .dtype = dtype,
                                 .to = {&all, 1}});
      call.kernels.load_cached(
          {.width = kWidth, .dtype = dtype, .from = {&all, 1}, .to = call.output(kPositions * kWidth)});
      const std::array rows{all, some};
      call.kernels.attention_cached({.rows = rows,
                                     .heads = kHeads,
                                     .key_heads = kKeyHeads,
                                     .d_k = kFeatures,
                                     .d_v = kFeatures,
                                     .scale = 0.1f,
                                     .query = call.input(2 * kHeads * kFeatures, 3),
                                     .query_stride = kHeads * kFeatures,
                                     .dtype = dtype,
                                     .output = call.output(2 * kHeads * kFeatures),
                                     .output_stride = kHeads * kFeatures});
    });
  }
}

TEST(BackendsBf16, TheCpuRefusesThem) {
  Tensor x = Tensor::zeros({4}, DType::bf16);
  try {
    backend(Device::cpu).scale(elements(x), 2, mutable_elements(x), 4, Accumulate::no);
    FAIL() << "expected a UsageError";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "device cpu: expected activations of f32, found bf16");
  }
}

}  // namespace
}  // namespace qkv::kernels
