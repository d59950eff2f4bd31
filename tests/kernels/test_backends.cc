// Every kernel on every backend against the reference backend: the same arguments, results that are nearly
// the same, and nothing written beside them. Lengths go from nothing to past two of the widest vectors, and
// data begins at addresses that are not aligned. A new backend passes this first.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/kernels/backend.h"
#include "qkv/tensor/tensor.h"
#include "rowwise.h"

namespace qkv::kernels {
namespace {

constexpr int64_t kLongest = 2 * 16 + 3;  // floats
constexpr Accumulate kBoth[] = {Accumulate::no, Accumulate::yes};

// One call of a kernel on a device. Inputs are copied there, each behind a few elements of something else.
class Call {
 public:
  Call(Device device, int64_t misaligned)
      : kernels(backend(device)), device_(device), misaligned_(misaligned) {}

  const Backend& kernels;

  // Random numbers, the same for the same seed.
  const float* input(int64_t count, uint64_t seed, float size = 1) {
    return place(Numbers(count, seed, size, misaligned_)) + misaligned_;
  }
  template <class T>
  const T* input(const std::vector<T>& values) {
    return static_cast<const T*>(place(Tensor::from(values, {static_cast<int64_t>(values.size())})));
  }
  // Where results go: it begins with random numbers, as what is added to has some.
  float* output(int64_t count, uint64_t seed = 99, float size = 1) {
    float* const whole = place(Numbers(count, seed, size, misaligned_));
    outputs_.push_back(tensors_.back());
    return whole + misaligned_;
  }
  // A number that a kernel returned.
  void returned(double value) { returned_.push_back(value); }

  // All that the call has found, with what lies around it.
  std::vector<double> results() const {
    std::vector<double> all = returned_;
    for (const Tensor& output : outputs_) {
      const Tensor host = to_host(output);
      all.insert(all.end(), host.values().begin(), host.values().end());
    }
    return all;
  }

 private:
  float* place(const Numbers& numbers) {
    return static_cast<float*>(place(Tensor::from(numbers.all(), {std::ssize(numbers.all())})));
  }
  void* place(const Tensor& host) {
    tensors_.push_back(from_host(host, device_));
    return tensors_.back().address();
  }

  Device device_;
  int64_t misaligned_;
  std::vector<Tensor> tensors_, outputs_;
  std::vector<double> returned_;
};

// `kernel` finds the same on all devices, within tolerance * max(1, |expected|).
void expect_agreement(const std::string& what, double tolerance, const std::function<void(Call&)>& kernel) {
  for (const int64_t misaligned : {0, 1, 3}) {
    Call reference(Device::reference, misaligned);
    kernel(reference);
    const std::vector<double> expected = reference.results();
    ASSERT_FALSE(expected.empty()) << what;
    for (const Device device : kDevices) {
      if (device == Device::reference) continue;
      Call call(device, misaligned);
      kernel(call);
      const std::vector<double> found = call.results();
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        if (found[i] == expected[i]) continue;  // infinities too
        if (std::isnan(found[i]) && std::isnan(expected[i])) continue;
        ASSERT_NEAR(found[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
            << name_of(device) << ", " << what << " at " << i << ", misaligned by " << misaligned;
      }
    }
  }
}

// The same for each length from nothing or one on, with all vectors that the machine has.
void for_lengths(int64_t first, const std::function<void(int64_t)>& test) {
  for_each_target([&] {
    for (int64_t n = first; n <= kLongest; ++n) test(n);
  });
}

std::string sizes(const std::string& name, int64_t n, Accumulate accumulate = Accumulate::no) {
  return name + " of " + std::to_string(n) + (accumulate == Accumulate::yes ? ", added" : "");
}

// Blocks of 3 and n weights, as a layer of several maps has them.
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
        expect_agreement(sizes("product with packed weights", n, accumulate), 1e-5, [&](Call& call) {
          const Matrix blocks[] = {{call.input(3 * inner, 2), 3, inner, inner},
                                   {call.input(n * (inner + 1), 3), n, inner, inner + 1}};
          call.kernels.matmul(left(call), *call.kernels.pack_transposed(blocks), call.input(columns, 4),
                              result(call), accumulate);
        });
        expect_agreement(sizes("product with a packed matrix", n, accumulate), 1e-5, [&](Call& call) {
          const Matrix block{call.input(inner * columns, 2), inner, columns, columns};
          call.kernels.matmul(left(call), *call.kernels.pack_plain({&block, 1}), nullptr, result(call),
                              accumulate);
        });
        expect_agreement(sizes("product with weights in place", n, accumulate), 1e-5, [&](Call& call) {
          const WeightRows blocks[] = {{call.input(3 * inner, 2), DType::f32, nullptr, 3, inner},
                                       {call.input(n * inner, 3), DType::f32, nullptr, n, inner}};
          call.kernels.matmul(left(call), *call.kernels.view(blocks), call.input(columns, 4), result(call),
                              accumulate);
        });
        expect_agreement(sizes("gradient of a weight", n, accumulate), 1e-5, [&](Call& call) {
          const Matrix right{call.input(rows * columns, 2), rows, columns, columns};
          call.kernels.matmul_transposed_a(
              left(call), right, {call.output(inner * columns), inner, columns, columns}, accumulate);
        });
      }
    }
  });
}

// Rounded to the same integers everywhere, and so are the rows that they are multiplied by.
TEST(Backends, RoundedWeights) {
  constexpr int64_t kRows = 9, kOutputs = 5;
  for_lengths(1, [](int64_t n) {
    const auto narrow = [&](Call& call, DType dtype) {
      const float* const wide = call.input(kOutputs * n, 2);
      // As floats, which hold two or four of them.
      void* const to = call.output(kOutputs * n);
      float* const scales = call.output(kOutputs);
      if (dtype == DType::bf16) {
        call.kernels.round_to_bf16(wide, static_cast<BFloat16*>(to), kOutputs * n);
        return WeightRows{to, dtype, nullptr, kOutputs, n};
      }
      call.kernels.quantize_rows(wide, kOutputs, n, static_cast<int8_t*>(to), scales);
      return WeightRows{to, dtype, scales, kOutputs, n};
    };
    for (const DType dtype : {DType::bf16, DType::i8}) {
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

TEST(Backends, CopyScaleAdd) {
  for_lengths(0, [](int64_t n) {
    for (const Accumulate accumulate : kBoth) {
      expect_agreement(sizes("copy", n, accumulate), 1e-6, [&](Call& call) {
        call.kernels.copy(call.input(n, 1), call.output(n), n, accumulate);
      });
      expect_agreement(sizes("scale", n, accumulate), 1e-6, [&](Call& call) {
        call.kernels.scale(call.input(n, 1), -1.75f, call.output(n), n, accumulate);
      });
    }
    expect_agreement(sizes("add", n), 1e-6, [&](Call& call) {
      call.kernels.add(call.input(n, 1), call.input(n, 2), call.output(n), n);
    });
  });
}

TEST(Backends, ColumnSumsAndTransposes) {
  for_lengths(0, [](int64_t n) {
    for (const int64_t rows : {0, 1, 5, 70}) {
      const int64_t stride = n + 2;
      for (const Accumulate accumulate : kBoth) {
        expect_agreement(sizes("column_sums", n, accumulate), 3e-6, [&](Call& call) {
          call.kernels.column_sums(call.input(rows * stride, 1), rows, n, stride, call.output(n), accumulate);
        });
      }
      for (const size_t element : {2, 4}) {
        expect_agreement(sizes("transpose", n), 0, [&](Call& call) {
          const auto row_bytes = static_cast<int64_t>(element) * stride;
          float* const to = call.output((static_cast<int64_t>(element) * rows * n + 3) / 4);
          call.kernels.transpose(call.input((rows * row_bytes + 3) / 4, 1), stride, rows, n, element, to);
        });
      }
    }
  });
}

TEST(Backends, Activations) {
  constexpr int64_t kRows = 3;
  for_lengths(0, [](int64_t n) {
    for (const Activation kind : {Activation::identity, Activation::relu, Activation::gelu_exact,
                                  Activation::gelu_tanh, Activation::silu, Activation::tanh}) {
      for (const float rate : {0.0f, 0.3f}) {
        const Dropout dropout = some_dropout(rate);
        expect_agreement(sizes("activate", n), 2e-6, [&](Call& call) {
          call.kernels.activate(kind, call.input(kRows * n, 1, 4), call.output(kRows * n), kRows, n, dropout);
        });
        for (const Accumulate accumulate : kBoth) {
          expect_agreement(sizes("activate_backward", n, accumulate), 3e-6, [&](Call& call) {
            call.kernels.activate_backward(kind, call.input(kRows * n, 1, 4), call.input(kRows * n, 2),
                                           call.output(kRows * n), kRows, n, dropout, accumulate);
          });
          const Gated columns{.activation = kind,
                              .gate_stride = n + 2,
                              .x_stride = n + 1,
                              .rows = kRows,
                              .cols = n,
                              .dropout = dropout};
          expect_agreement(sizes("gated_backward", n, accumulate), 3e-6, [&](Call& call) {
            Gated a = columns;
            a.gate = call.input(kRows * a.gate_stride, 1, 4);
            a.x = call.input(kRows * a.x_stride, 2);
            call.kernels.gated_backward(a, call.input(kRows * n, 3),
                                        {call.output(kRows * (n + 3)), n + 3, accumulate},
                                        {call.output(kRows * n), n, accumulate});
          });
          expect_agreement(sizes("gated", n), 3e-6, [&](Call& call) {
            Gated a = columns;
            a.gate = call.input(kRows * a.gate_stride, 1, 4);
            a.x = call.input(kRows * a.x_stride, 2);
            call.kernels.gated(a, call.output(kRows * n));
          });
        }
      }
    }
    expect_agreement(sizes("relu_backward", n), 1e-6, [&](Call& call) {
      call.kernels.relu_backward(call.input(n, 1), call.input(n, 2), 1.25f, call.output(n), n);
    });
  });
}

TEST(Backends, Norms) {
  constexpr int64_t kRows = 4;
  // Of two columns that are nearly equal, the deviation may be as small as one likes.
  for_lengths(3, [](int64_t n) {
    for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
      for (const float rate : {0.0f, 0.3f}) {
        const bool has_bias = kind == NormKind::layer;
        expect_agreement(sizes("norm_forward", n), 1e-4, [&](Call& call) {
          call.kernels.norm_forward({.x = call.input(kRows * n, 1),
                                     .residual = rate > 0 ? call.input(kRows * n, 2) : nullptr,
                                     .dropout = some_dropout(rate),
                                     .kind = kind,
                                     .weight = call.input(n, 3),
                                     .bias = has_bias ? call.input(n, 4) : nullptr,
                                     .rows = kRows,
                                     .cols = n},
                                    {.sum = call.output(kRows * n),
                                     .y = call.output(kRows * n),
                                     .mean = call.output(kRows),
                                     .rstd = call.output(kRows)});
        });
        for (const Accumulate accumulate : kBoth) {
          expect_agreement(sizes("norm_backward", n, accumulate), 3e-6, [&](Call& call) {
            call.kernels.norm_backward({.kind = kind,
                                        .z = call.input(kRows * n, 1),
                                        .weight = call.input(n, 2),
                                        .mean = call.input(kRows, 3, has_bias ? 0.1f : 0),
                                        .rstd = call.input(kRows, 4),
                                        .dy = call.input(kRows * n, 5),
                                        .rows = kRows,
                                        .cols = n,
                                        .dz = call.output(kRows * n),
                                        .dz_accumulate = accumulate,
                                        .residual_gradient = call.output(kRows * n),
                                        .residual_accumulate = accumulate,
                                        .dropout = some_dropout(rate),
                                        .weight_gradient = call.output(n),
                                        .bias_gradient = has_bias ? call.output(n) : nullptr,
                                        .weight_accumulate = accumulate,
                                        .bias_accumulate = accumulate});
          });
          expect_agreement(sizes("dropout_backward", n, accumulate), 1e-6, [&](Call& call) {
            call.kernels.dropout_backward(call.input(kRows * n, 1), call.output(kRows * n), kRows, n,
                                          some_dropout(rate), accumulate);
          });
        }
      }
    }
  });
}

TEST(Backends, Losses) {
  constexpr int64_t kRows = 3;
  for_lengths(1, [](int64_t n) {
    std::vector<int32_t> labels;
    for (int64_t r = 0; r < kRows; ++r) labels.push_back(static_cast<int32_t>((5 * r + 2) % n));
    for (const bool has_bias : {false, true}) {
      expect_agreement(sizes("cross_entropy", n), 3e-6, [&](Call& call) {
        call.kernels.cross_entropy({.logits = call.output(kRows * n, 1, 5),
                                    .bias = has_bias ? call.input(n, 2) : nullptr,
                                    .labels = call.input(labels),
                                    .rows = kRows,
                                    .cols = n,
                                    .smoothing = 0.1f,
                                    .grad_scale = 0.5f,
                                    .loss = call.output(kRows),
                                    .nll = call.output(kRows)});
      });
      expect_agreement(sizes("log_softmax", n), 3e-6, [&](Call& call) {
        call.kernels.log_softmax(call.input(kRows * n, 1, 5), has_bias ? call.input(n, 2) : nullptr,
                                 call.output(kRows * n), kRows, n);
      });
    }
    expect_agreement(sizes("softmax", n), 3e-6, [&](Call& call) {
      call.kernels.softmax(call.input(kRows * n, 1, 5), call.output(kRows * n), kRows, n);
    });
  });
}

TEST(Backends, EmbeddingsAndRotaryPositions) {
  constexpr int64_t kVocabulary = 5, kTokens = 9, kPositions = 4, kHeads = 2;
  const std::vector<int32_t> ids{3, 0, 4, 3, 3, 1, 0, 2, 3}, positions{0, 1, 2, 3, 0, 1, 0, 1, 3};
  for_lengths(0, [&](int64_t n) {
    for (const float rate : {0.0f, 0.3f}) {
      for (const bool placed : {false, true}) {
        expect_agreement(sizes("embedding_forward", n), 1e-6, [&](Call& call) {
          call.kernels.embedding_forward(
              {.table = {.data = call.input(kVocabulary * n, 1), .rows = kVocabulary, .cols = n},
               .ids = call.input(ids),
               .factor = 1.5f,
               .positions = placed ? call.input(kPositions * n, 2) : nullptr,
               .position = placed ? call.input(positions) : nullptr,
               .tokens = kTokens,
               .cols = n,
               .dropout = some_dropout(rate),
               .y = call.output(kTokens * n)});
        });
      }
      expect_agreement(sizes("embedding_backward", n), 2e-6, [&](Call& call) {
        call.kernels.embedding_backward(call.input(kTokens * n, 1), call.input(ids), 1.5f, kTokens, n,
                                        kVocabulary, some_dropout(rate), call.output(kVocabulary * n));
      });
    }
    const int64_t d = 2 * n, width = kHeads * d;
    for (const Turn direction : {Turn::forward, Turn::back}) {
      for (const Accumulate accumulate : kBoth) {
        expect_agreement(sizes("rotary", d, accumulate), 2e-6, [&](Call& call) {
          call.kernels.rotary({.x = call.input(kTokens * (width + 3), 1),
                               .x_stride = width + 3,
                               .y = call.output(kTokens * (width + 1)),
                               .y_stride = width + 1,
                               .rows = kTokens,
                               .heads = kHeads,
                               .d = d,
                               .cosines = call.input(kPositions * n, 2),
                               .sines = call.input(kPositions * n, 3),
                               .positions = call.input(positions),
                               .direction = direction,
                               .accumulate = accumulate});
        });
      }
    }
  });
}

TEST(Backends, SumsOverGradients) {
  for_lengths(0, [](int64_t n) {
    expect_agreement(sizes("sum_of_squares", n), 1e-12,
                     [&](Call& call) { call.returned(call.kernels.sum_of_squares(call.input(n, 1), n)); });
    for (int64_t at = -1; at < n; ++at) {
      std::vector<float> numbers(static_cast<size_t>(n), 0.5f);
      if (at >= 0) numbers[static_cast<size_t>(at)] = at % 2 == 0 ? NAN : INFINITY;
      expect_agreement(sizes("all_finite", n), 0, [&](Call& call) {
        const bool finite = call.kernels.all_finite(call.input(numbers), n);
        EXPECT_EQ(finite, at < 0);
        call.returned(finite ? 1 : 0);
      });
    }
  });
}

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
             .scale = 0.7f};
    input = {.query = call.input(query_tokens * 4 * d, 1, 2),
             .key = call.input(key_tokens * 2 * d, 2, 2),
             .value = call.input(key_tokens * 2 * (d + 1), 3),
             .query_stride = 4 * d,
             .key_stride = 2 * d,
             .value_stride = 2 * (d + 1)};
  }
  void add_masks(Call& call) {
    shape.causal = true;
    std::vector<uint8_t> keep;
    for (int64_t i = 0; i < 2 * longest; ++i) keep.push_back(i % 5 != 1 ? 1 : 0);
    shape.keep = {call.input(keep), longest, 0, 0};
    shape.bias = {call.input(4 * longest * longest, 4), 0, longest * longest, longest};
    shape.alibi_slopes = call.input(4, 5);
    shape.relative = {call.input(4 * (2 * longest + 1), 6), 2 * longest + 1, longest};
    shape.dropout = some_dropout(0.2f);
  }

  std::vector<int32_t> query_offsets, key_offsets;
  int64_t query_tokens = 0, key_tokens = 0, longest = 0;
  AttentionShape shape;
  AttentionInput input;
};

TEST(Backends, Attention) {
  for_lengths(0, [](int64_t n) {
    for (const auto& [keys, d] : {std::pair<int64_t, int64_t>{n, 8}, {7, n + 1}, {n + 2, 5}}) {
      for (const bool masked : {false, true}) {
        expect_agreement(sizes("attention_forward", n), 3e-6, [&](Call& call) {
          AttentionCall a(call, n, keys, d);
          if (masked) a.add_masks(call);
          const int64_t numbers = 4 * a.query_tokens;
          std::vector<int64_t> offsets;
          for (int64_t i = 0; i < numbers; ++i) offsets.push_back(i % 3 == 0 ? -1 : i * a.longest);
          call.kernels.attention_forward(a.shape, a.input,
                                         {.output = call.output(a.query_tokens * 4 * (d + 1)),
                                          .output_stride = 4 * (d + 1),
                                          .log_sum_exp = call.output(numbers),
                                          .capture = {.offsets = offsets.data(),
                                                      .weights = call.output(numbers * a.longest),
                                                      .entropy = call.output(numbers)}});
        });
        expect_agreement(sizes("attention_backward", n), 1e-5, [&](Call& call) {
          AttentionCall a(call, n, keys, d);
          if (masked) a.add_masks(call);
          const int64_t width = 4 * (d + 1);
          float* const output = call.output(a.query_tokens * width);
          float* const log_sum_exp = call.output(4 * a.query_tokens);
          call.kernels.attention_forward(a.shape, a.input, {output, width, log_sum_exp});
          call.kernels.attention_backward(
              a.shape, a.input, output, width, log_sum_exp, call.input(a.query_tokens * width, 7), width,
              {.query = call.output(a.query_tokens * 4 * d),
               .key = call.output(a.key_tokens * 2 * d),
               .value = call.output(a.key_tokens * 2 * (d + 1)),
               .query_stride = 4 * d,
               .key_stride = 2 * d,
               .value_stride = 2 * (d + 1),
               .key_accumulate = Accumulate::yes,
               .bias = masked ? call.output(4 * a.longest * a.longest) : nullptr,
               .relative = masked ? call.output(4 * (2 * a.longest + 1)) : nullptr});
        });
      }
    }
  });
}

TEST(Backends, CachedAttention) {
  constexpr int64_t kHeads = 4, kKeyHeads = 2;
  for_lengths(0, [](int64_t n) {
    for (const int64_t d : {n + 1, int64_t{8}}) {
      for (const bool distances : {false, true}) {
        expect_agreement(sizes("attention_cached", n), 3e-6, [&](Call& call) {
          // Rows of n, 1 and 5 positions; the last two share theirs.
          const std::vector<int32_t> lengths{static_cast<int32_t>(n), 1, 5};
          const int64_t width = kKeyHeads * (2 * d + 1), longest = std::max<int64_t>(n, 5);
          std::vector<std::vector<const void*>> positions(3);
          for (size_t row = 0; row < 3; ++row) {
            const float* const block = call.input(longest * width, row == 0 ? 1 : 2);
            for (int64_t j = 0; j < lengths[row]; ++j) positions[row].push_back(block + j * width);
          }
          const std::vector<const void* const*> entries{positions[0].data(), positions[1].data(),
                                                        positions[2].data()};
          std::vector<float*> weights;
          for (const int32_t length : lengths) weights.push_back(call.output(kHeads * length));
          CachedAttention a{.rows = 3,
                            .heads = kHeads,
                            .key_heads = kKeyHeads,
                            .d_k = d,
                            .d_v = d + 1,
                            .scale = 0.7f,
                            .query = call.input(3 * kHeads * d, 3, 2),
                            .query_stride = kHeads * d,
                            .entries = entries.data(),
                            .lengths = lengths.data(),
                            .output = call.output(3 * kHeads * (d + 1)),
                            .output_stride = kHeads * (d + 1),
                            .weights = weights.data()};
          if (distances) {
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
