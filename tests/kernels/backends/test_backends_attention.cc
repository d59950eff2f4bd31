// Attention on every backend (backends.h).

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/kernels/backends.h"

namespace qkv::kernels {
namespace {

// Two sequences, of n and of 3 queries.
struct AttentionCall {
  explicit AttentionCall(Call& call, int64_t queries, int64_t keys, int64_t d) {
    query_offsets = {0, static_cast<int32_t>(queries), static_cast<int32_t>(queries + 3)};
    key_offsets = {0, static_cast<int32_t>(keys), static_cast<int32_t>(keys + 3)};
    query_tokens = queries + 3;
    key_tokens = keys + 3;
    longest = std::max(queries, keys) + 3;
    shape = {.sequences = 2,
             .query_offsets = query_offsets.data(),
             .key_offsets = key_offsets.data(),
             .heads = 4,
             .key_heads = 2,
             .d_k = d,
             .d_v = d + 1,
             // Scores of wide heads would be large otherwise, and their exponentials inaccurate. Those of the
             // widest are smaller still, as the error of a product grows with the features.
             .scale = 0.7f / std::max(1.0f, std::sqrt(static_cast<float>(d) / 8)) /
                      std::max(1.0f, static_cast<float>(d) / 130)};
    input = {.query = call.input(query_tokens * 4 * d, 1, 2),
             .key = call.input(key_tokens * 2 * d, 2, 2),
             .value = call.input(key_tokens * 2 * (d + 1), 3),
             .query_stride = 4 * d,
             .key_stride = 2 * d,
             .value_stride = 2 * (d + 1)};
  }
  void add_nothing(Call& /*call*/) {}
  void add_masks(Call& call) {
    shape.causal = true;
    std::vector<uint8_t> keep;
    for (int64_t i = 0; i < 2 * longest; ++i) keep.push_back(i % 5 != 1 ? 1 : 0);
    shape.keep = {call.input(keep), longest, 0, 0};
    shape.bias = {call.input(4 * longest * longest, 4), 0, longest * longest, longest};
    // Scores of many keys would be large otherwise, as above.
    shape.alibi_slopes = call.input(4, 5, std::min(1.0f, 30.0f / static_cast<float>(longest)));
    shape.relative = {call.input(4 * (2 * longest + 1), 6), 2 * longest + 1, longest};
    shape.dropout = some_dropout(0.2f);
  }

  void add_window(Call& call) {
    shape.causal = shape.fixed_order = true;
    shape.window = 3;
    shape.sinks = call.input(4, 8);
    shape.softcap = 0.8f;
    shape.alignment = Alignment::first_key;
  }
  void add_window_on_both_sides(Call& call) {
    shape.window = 2;
    shape.sinks = call.input(4, 8);
  }

  std::vector<int32_t> query_offsets, key_offsets;
  int64_t query_tokens = 0, key_tokens = 0, longest = 0;
  AttentionShape shape;
  AttentionInput input;
};

void expect_attention(int64_t queries, int64_t keys, int64_t d, void (AttentionCall::*add)(Call&)) {
  const auto what = [&](const char* name) {
    return concat(name, " of ", queries, " queries, ", keys, " keys, ", d, " features");
  };
  const bool masked = add == &AttentionCall::add_masks;
  expect_agreement(what("attention_forward"), 3e-6, [&](Call& call) {
    AttentionCall a(call, queries, keys, d);
    (a.*add)(call);
    const int64_t numbers = 4 * a.query_tokens;
    std::vector<int64_t> offsets;
    for (int64_t i = 0; i < numbers; ++i) offsets.push_back(i * a.longest);
    call.kernels.attention_forward(a.shape, a.input,
                                   {.output = call.output(a.query_tokens * 4 * (d + 1)),
                                    .output_stride = 4 * (d + 1),
                                    .log_sum_exp = call.output(numbers),
                                    .capture = {.offsets = offsets.data(),
                                                .weights = call.output(numbers * a.longest),
                                                .scores = call.output(numbers * a.longest)}});
  });
  expect_agreement(what("attention_backward"), 1e-5, [&](Call& call) {
    AttentionCall a(call, queries, keys, d);
    (a.*add)(call);
    const int64_t width = 4 * (d + 1);
    float* const output = call.output(a.query_tokens * width);
    float* const log_sum_exp = call.output(4 * a.query_tokens);
    call.kernels.attention_forward(a.shape, a.input, {output, width, log_sum_exp});
    call.kernels.attention_backward(a.shape, a.input, output, width, log_sum_exp,
                                    call.input(a.query_tokens * width, 7), width,
                                    {.query = call.output(a.query_tokens * 4 * d),
                                     .key = call.output(a.key_tokens * 2 * d),
                                     .value = call.output(a.key_tokens * 2 * (d + 1)),
                                     .query_stride = 4 * d,
                                     .key_stride = 2 * d,
                                     .value_stride = 2 * (d + 1),
                                     .key_accumulate = Accumulate::yes,
                                     .bias = masked ? call.output(4 * a.longest * a.longest) : nullptr,
                                     .relative = masked ? call.output(4 * (2 * a.longest + 1)) : nullptr,
                                     .sinks = a.shape.sinks != nullptr ? call.output(4) : nullptr});
  });
}

constexpr std::array kAttentions{&AttentionCall::add_nothing, &AttentionCall::add_masks,
                                 &AttentionCall::add_window, &AttentionCall::add_window_on_both_sides};

TEST(Backends, Attention) {
  for_lengths(0, [](int64_t n) {
    for (const auto& [keys, d] : {std::pair<int64_t, int64_t>{n, 8}, {7, n + 1}, {n + 2, 5}}) {
      for (const auto add : kAttentions) expect_attention(n, keys, d, add);
    }
  });
}

// More rows than a GPU's block has, on each side; heads wider than a block's columns, and than all tiles.
TEST(Backends, AttentionOfManyRowsAndFeatures) {
  for (const auto add : kAttentions) {
    expect_attention(70, 99, 40, add);
    expect_attention(131, 66, 20, add);
    expect_attention(5, 40, 127, add);
    expect_attention(66, 33, 140, add);
    expect_attention(5, 9, 256, add);
  }
}

TEST(Backends, CachedAttention) {
  constexpr int64_t kHeads = 4, kKeyHeads = 2;
  for_lengths(0, [](int64_t n) {
    for (const int64_t d : {n + 1, int64_t{8}}) {
      for (const auto& [dtype, distances] :
           {std::pair{DType::f32, false}, {DType::f32, true}, {DType::bf16, true}}) {
        expect_agreement(
            sizes(concat("attention_cached ", name_of(dtype)), n), 3e-6,
            [&, dtype = dtype, distances = distances](Call& call) {
              // Rows of n, 1 and 5 positions; the last two share theirs.
              const std::vector<int64_t> lengths{n, 1, 5}, weight_offsets{0, kHeads * n, kHeads * (n + 1)};
              const int64_t width = kKeyHeads * (2 * d + 1), longest = std::max<int64_t>(n, 5);
              constexpr int64_t kBlock = CacheBlockTable::kPositions;
              std::vector<int32_t> numbers(static_cast<size_t>(longest));
              for (size_t i = 0; i < numbers.size(); ++i)
                numbers[i] = static_cast<int32_t>(i * 7 % numbers.size());  // in another order
              std::vector<std::vector<DeviceAddress<void>>> blocks(3);
              std::vector<CacheRow> rows;
              for (size_t row = 0; row < 3; ++row) {
                auto* cache = const_cast<float*>(call.input(longest * width, row == 0 ? 1 : 2));
                if (dtype == DType::bf16) {
                  float* const rounded = call.output(longest * width);
                  call.kernels.round_to_bf16(cache, reinterpret_cast<BFloat16*>(rounded), longest * width);
                  cache = rounded;
                }
                for (int64_t j = 0; j < longest; j += kBlock) {
                  blocks[row].emplace_back(reinterpret_cast<std::byte*>(cache) + bytes_of(dtype, j * width));
                }
                rows.push_back({blocks[row], std::span(numbers).first(static_cast<size_t>(lengths[row]))});
              }
              CachedAttention a{.rows = rows,
                                .heads = kHeads,
                                .key_heads = kKeyHeads,
                                .d_k = d,
                                .d_v = d + 1,
                                .scale = 0.7f,
                                .query = call.input(3 * kHeads * d, 3, 2),
                                .query_stride = kHeads * d,
                                .dtype = dtype,
                                .output = call.output(3 * kHeads * (d + 1)),
                                .output_stride = kHeads * (d + 1),
                                .weight_offsets = weight_offsets.data(),
                                .weights = call.output(kHeads * (n + 6))};
              if (distances) {
                a.softcap = 0.8f;
                a.sinks = call.input(kHeads, 6);
                a.alibi_slopes = call.input(kHeads, 4);
                a.relative = {call.input(kHeads * (2 * longest + 1), 5), 2 * longest + 1, longest};
              }
              call.kernels.attention_cached(a);
            });
      }
    }
  });
}

}  // namespace
}  // namespace qkv::kernels
