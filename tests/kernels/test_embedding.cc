#include "qkv/kernels/cpu/kernels.h"

#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "qkv/kernels/reference/dropout.h"
#include "qkv/kernels/reference/embedding.h"
#include "tests/kernels/rowwise.h"

namespace qkv::kernels {
namespace {

constexpr int64_t kVocabulary = 7, kPlaces = 11, kTokens = 23;

std::vector<int32_t> numbers_below(int64_t bound, uint64_t seed) {
  RandomStream random(seed);
  std::vector<int32_t> result;
  for (int64_t t = 0; t < kTokens; ++t) {
    result.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(bound))));
  }
  return result;
}

TEST(Embedding, Forward) {
  for_each_target([] {
    const auto ids = numbers_below(kVocabulary, 1), position = numbers_below(kPlaces, 2);
    for (const int64_t cols : {1, 5, 16, 17, 33, 128, 520}) {
      const Numbers table(kVocabulary * cols, 3), positions(kPlaces * cols, 4);
      for (const bool placed : {false, true}) {
        for (const float rate : {0.0f, 0.3f}) {
          Numbers y(kTokens * cols, 5);
          const EmbeddingForward arguments{.table = {.data = table.data(), .rows = kVocabulary, .cols = cols},
                                           .ids = ids.data(),
                                           .factor = 2.5f,
                                           .positions = placed ? positions.data() : nullptr,
                                           .position = placed ? position.data() : nullptr,
                                           .tokens = kTokens,
                                           .cols = cols,
                                           .dropout = some_dropout(rate),
                                           .y = y.data()};
          cpu::embedding_forward(arguments);
          expect_near(y, reference::embedded(arguments), 2e-7, 2e-7, Accumulate::no,
                      std::to_string(cols) + " columns");
        }
      }
    }
  });
}

TEST(Embedding, ForwardFromTablesOfOtherDTypes) {
  for_each_target([] {
    const auto ids = numbers_below(kVocabulary, 1), position = numbers_below(kPlaces, 2);
    for (const int64_t cols : {1, 5, 16, 17, 33, 128, 520}) {
      const Numbers table(kVocabulary * cols, 3), positions(kPlaces * cols, 4);
      std::vector<BFloat16> brains(static_cast<size_t>(table.size()));
      cpu::round_to_bf16(table.data(), brains.data(), table.size());
      std::vector<Float16> halves(brains.size());
      cpu::round_to_f16(table.data(), halves.data(), table.size());
      std::vector<int8_t> bytes(halves.size());
      std::vector<float> scales(kVocabulary);
      cpu::quantize_rows(table.data(), kVocabulary, cols, bytes.data(), scales.data());
      for (const WeightRows& quantized :
           {WeightRows{brains.data(), DType::bf16, nullptr, kVocabulary, cols},
            WeightRows{halves.data(), DType::f16, nullptr, kVocabulary, cols},
            WeightRows{bytes.data(), DType::i8, scales.data(), kVocabulary, cols}}) {
        Numbers y(kTokens * cols, 5);
        const EmbeddingForward arguments{.table = quantized,
                                         .ids = ids.data(),
                                         .factor = 2.5f,
                                         .positions = positions.data(),
                                         .position = position.data(),
                                         .tokens = kTokens,
                                         .cols = cols,
                                         .y = y.data()};
        cpu::embedding_forward(arguments);
        expect_near(y, reference::embedded(arguments), 3e-7, 3e-7, Accumulate::no,
                    concat(name_of(quantized.dtype), ", ", cols, " columns"));
      }
    }
  });
}

TEST(Embedding, BackwardAddsInTheOrderOfTheTokens) {
  for_each_target([] {
    const auto ids = numbers_below(kVocabulary, 6);
    for (const int64_t cols : {1, 5, 16, 17, 129, 600}) {
      const Numbers dy(kTokens * cols, 7);
      for (const float rate : {0.0f, 0.3f}) {
        const Dropout dropout = some_dropout(rate);
        std::vector<double> expected(static_cast<size_t>(kVocabulary * cols));
        for (int64_t t = 0; t < kTokens; ++t) {
          for (int64_t c = 0; c < cols; ++c) {
            expected[static_cast<size_t>(ids[static_cast<size_t>(t)] * cols + c)] +=
                1.5 * reference::dropout_factor(dropout, t, c) * double{dy[t * cols + c]};
          }
        }
        const auto result = [&] {
          Numbers gradient(kVocabulary * cols, 8);
          cpu::embedding_backward(dy.data(), ids.data(), 1.5f, kTokens, cols, kVocabulary, dropout,
                                  gradient.data());
          return gradient;
        };
        expect_near(result(), expected, 2e-6, 0, Accumulate::yes, std::to_string(cols) + " columns");
        if (cols == 600) expect_same_for_any_threads(result);
      }
    }
  });
}

}  // namespace
}  // namespace qkv::kernels
