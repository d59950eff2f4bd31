// Matrix products and weights in all dtypes on every backend (backends.h).

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/backends.h"
#include "tests/support/random_blocks.h"

namespace qkv::kernels {
namespace {

// Blocks of 3 and n weights, as in a layer of several maps.
TEST(Backends, Products) {
  for_lengths(1, [](int64_t n) {
    for (const auto& [rows, inner] : {std::pair<int64_t, int64_t>{1, n}, {3, 17}, {9, 70}, {40, n + 1}}) {
      for (const Accumulate accumulate : kBoth) {
        const int64_t columns = n + 3, a_stride = inner + 2, c_stride = columns + 1;
        const auto left = [&](Call& call) {
          return Matrix{call.input(rows * a_stride, 1), rows, inner, a_stride};
        };
        const auto result = [&](Call& call) {
          return MutableMatrix{call.output(rows * c_stride), rows, columns, c_stride};
        };
        for (const DType operands : {DType::f32, DType::bf16}) {
          const std::string of = concat(" of ", name_of(operands));
          expect_agreement(sizes("product with packed weights" + of, n, accumulate), 1e-5, [&](Call& call) {
            const Matrix blocks[] = {{call.input(3 * inner, 2), 3, inner, inner},
                                     {call.input(n * (inner + 1), 3), n, inner, inner + 1}};
            call.kernels.matmul(left(call), *call.kernels.pack_transposed(std::span(blocks), operands),
                                call.input(columns, 4), result(call), accumulate);
          });
          expect_agreement(sizes("product with a packed matrix" + of, n, accumulate), 1e-5, [&](Call& call) {
            const Matrix block{call.input(inner * columns, 2), inner, columns, columns};
            call.kernels.matmul(left(call), *call.kernels.pack_plain({&block, 1}, operands), nullptr,
                                result(call), accumulate);
          });
          expect_agreement(sizes("gradient of a weight" + of, n, accumulate), 1e-5, [&](Call& call) {
            const Matrix right{call.input(rows * columns, 2), rows, columns, columns};
            call.kernels.matmul_transposed_a(left(call), right,
                                             {call.output(inner * columns), inner, columns, columns},
                                             accumulate, operands);
          });
        }
        expect_agreement(sizes("product with weights in place", n, accumulate), 1e-5, [&](Call& call) {
          const WeightRows blocks[] = {{call.input(3 * inner, 2), DType::f32, nullptr, 3, inner},
                                       {call.input(n * inner, 3), DType::f32, nullptr, n, inner}};
          call.kernels.matmul(left(call), *call.kernels.view(std::span(blocks)), call.input(columns, 4),
                              result(call), accumulate);
        });
      }
    }
  });
}

// All backends round weights and inputs to the same integers.
TEST(Backends, RoundedWeights) {
  constexpr int64_t kRows = 9, kOutputs = 5;
  for_lengths(1, [](int64_t n) {
    const auto narrow = [&](Call& call, DType dtype) {
      const float* const wide = call.input(kOutputs * n, 2);
      // As floats, each of which holds two or four of them.
      void* const to = call.output(kOutputs * n);
      float* const scales = call.output(kOutputs);
      if (dtype == DType::bf16) {
        call.kernels.round_to_bf16(wide, static_cast<BFloat16*>(to), kOutputs * n);
        return WeightRows{to, dtype, nullptr, kOutputs, n};
      }
      if (dtype == DType::f16) {
        call.kernels.round_to_f16(wide, static_cast<Float16*>(to), kOutputs * n);
        return WeightRows{to, dtype, nullptr, kOutputs, n};
      }
      call.kernels.quantize_rows(wide, kOutputs, n, static_cast<int8_t*>(to), scales);
      return WeightRows{to, dtype, scales, kOutputs, n};
    };
    for (const DType dtype : {DType::bf16, DType::f16, DType::i8}) {
      expect_agreement(sizes(name_of(dtype), n), 1e-6, [&](Call& call) {
        call.kernels.widen_rows(narrow(call, dtype), call.output(kOutputs * n));
      });
      expect_agreement(sizes(concat("product with ", name_of(dtype)), n), 1e-5, [&](Call& call) {
        const WeightRows block = narrow(call, dtype);
        call.kernels.matmul({call.input(kRows * n, 1), kRows, n, n}, *call.kernels.view({&block, 1}), nullptr,
                            {call.output(kRows * kOutputs), kRows, kOutputs, kOutputs}, Accumulate::no);
      });
    }
  });
}

TEST(Backends, WeightsInBlocks) {
  constexpr int64_t kRows = 9, kOutputs = 5, kInner = 512;
  for (const DType dtype : kBlockDTypes) {
    const std::vector<uint8_t> blocks = testing::random_blocks(dtype, kOutputs * kInner, 2);
    const auto weights = [&](Call& call) {
      return WeightRows{call.input(blocks), dtype, nullptr, kOutputs, kInner};
    };
    expect_agreement(name_of(dtype), 0, [&](Call& call) {
      call.kernels.widen_rows(weights(call), call.output(kOutputs * kInner));
    });
    // Sums of 512 numbers of up to 8.
    expect_agreement(concat("product with ", name_of(dtype)), 1e-4, [&](Call& call) {
      const WeightRows block = weights(call);
      call.kernels.matmul({call.input(kRows * kInner, 1), kRows, kInner, kInner},
                          *call.kernels.view({&block, 1}), nullptr,
                          {call.output(kRows * kOutputs), kRows, kOutputs, kOutputs}, Accumulate::no);
    });
    expect_agreement(concat("embedding of ", name_of(dtype)), 1e-6, [&](Call& call) {
      call.kernels.embedding_forward({.table = weights(call),
                                      .ids = call.input(std::vector<int32_t>{4, 0, 4}),
                                      .factor = 1.5f,
                                      .tokens = 3,
                                      .cols = kInner,
                                      .y = call.output(3 * kInner)});
    });
  }
}

// Two blocks a choice, as of a gate and its factor; each row of the inputs has two choices.
TEST(Backends, ProductsWithChosenWeights) {
  constexpr int64_t kTokens = 3, kWide = 512;
  constexpr size_t kChoices = 3;
  const std::vector<int32_t> chosen{2, 0, 1, 1, 0, 2};
  const auto check = [&](const std::string& what, double tolerance, int64_t inner, int64_t n,
                         const std::function<WeightRows(Call&, uint64_t, int64_t)>& weights) {
    for (const int64_t repeats : {1, 2}) {
      expect_agreement(sizes(concat("product with chosen ", what), inner), tolerance, [&](Call& call) {
        const int64_t rows = kTokens * repeats, columns = 2 + n;
        std::vector<std::unique_ptr<const PreparedMatrix>> views;
        std::vector<const PreparedMatrix*> addresses;
        std::vector<const float*> biases;
        for (size_t choice = 0; choice < kChoices; ++choice) {
          const WeightRows blocks[] = {weights(call, 10 + choice, 2), weights(call, 20 + choice, n)};
          addresses.push_back(views.emplace_back(call.kernels.view(std::span(blocks))).get());
          biases.push_back(choice == 1 ? nullptr : call.input(columns, 30 + choice));
        }
        const auto prepared = call.kernels.choices(addresses, biases);
        call.kernels.matmul_chosen({call.input(kTokens * (inner + 2), 1), kTokens, inner, inner + 2},
                                   *prepared, call.input(chosen),
                                   {call.output(rows * (columns + 1)), rows, columns, columns + 1});
      });
    }
  };
  for_lengths(1, [&](int64_t n) {
    check("f32", 1e-5, n, n, [n](Call& call, uint64_t seed, int64_t rows) {
      return WeightRows{call.input(rows * n, seed), DType::f32, nullptr, rows, n};
    });
    check("i8", 1e-5, n, n, [n](Call& call, uint64_t seed, int64_t rows) {
      void* const to = call.output(rows * n);
      float* const scales = call.output(rows);
      call.kernels.quantize_rows(call.input(rows * n, seed), rows, n, static_cast<int8_t*>(to), scales);
      return WeightRows{to, DType::i8, scales, rows, n};
    });
    check("bf16", 1e-5, n, n, [n](Call& call, uint64_t seed, int64_t rows) {
      void* const to = call.output(rows * n);
      call.kernels.round_to_bf16(call.input(rows * n, seed), static_cast<BFloat16*>(to), rows * n);
      return WeightRows{to, DType::bf16, nullptr, rows, n};
    });
  });
  for (const DType dtype : kBlockDTypes) {
    check(name_of(dtype), 1e-4, kWide, 5, [&](Call& call, uint64_t seed, int64_t rows) {
      return WeightRows{call.input(testing::random_blocks(dtype, rows * kWide, seed)), dtype, nullptr, rows,
                        kWide};
    });
  }
}

}  // namespace
}  // namespace qkv::kernels
