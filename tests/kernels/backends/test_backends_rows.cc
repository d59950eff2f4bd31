// Elementwise and row-wise kernels on every backend (backends.h).

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/kernels/backends.h"

namespace qkv::kernels {
namespace {

TEST(Backends, CopyScaleAdd) {
  for_lengths(0, [](int64_t n) {
    for (const Accumulate accumulate : kBoth) {
      expect_agreement(sizes("copy", n, accumulate), 1e-6, [&](Call& call) {
        call.kernels.copy(call.input(n, 1), call.output(n), n, accumulate);
      });
      expect_agreement(sizes("scale", n, accumulate), 1e-6, [&](Call& call) {
        call.kernels.scale(call.input(n, 1), -1.75f, call.output(n), n, accumulate);
      });
      expect_agreement(sizes("scale_by", n, accumulate), 1e-6, [&](Call& call) {
        call.kernels.scale_by(call.input(n, 1), call.input(std::vector<float>{-1.75f}), call.output(n), n,
                              accumulate);
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
    for (const Activation kind :
         {Activation::identity, Activation::relu, Activation::gelu_exact, Activation::gelu_tanh,
          Activation::silu, Activation::tanh, Activation::relu_squared, Activation::quick_gelu}) {
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
  // The deviation of two nearly equal columns may be arbitrarily small.
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
    const int64_t d = 2 * n + n % 3, width = kHeads * d;
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
                               .rotated = 2 * n,
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
    expect_agreement(sizes("sum_of_squares", n), 1e-12, [&](Call& call) {
      call.kernels.sum_of_squares(call.input(n, 1), n, call.result<double>());
    });
    expect_agreement(sizes("total", n), 1e-12, [&](Call& call) {
      call.kernels.total(call.input(n, 1), n, 0.25f, call.result<double>(), call.output(1));
      call.kernels.total(call.input(n, 2), n, 1, call.result<double>(), nullptr);
    });
    for (int64_t at = -1; at < n; ++at) {
      std::vector<float> numbers(static_cast<size_t>(n), 0.5f);
      if (at >= 0) numbers[static_cast<size_t>(at)] = at % 2 == 0 ? NAN : INFINITY;
      expect_agreement(sizes("all_finite", n), 0, [&](Call& call) {
        call.kernels.all_finite(call.input(numbers), n, call.result<int32_t>());
        EXPECT_EQ(call.results().front(), at < 0 ? 1 : 0);
      });
    }
  });
}

}  // namespace
}  // namespace qkv::kernels
