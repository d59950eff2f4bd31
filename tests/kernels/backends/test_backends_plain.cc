// Kernels of general operations, and the entries of a cache, on every backend (backends.h).

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/kernels/backends.h"

namespace qkv::kernels {
namespace {

// x [3, 1, n], y [1, 4, n] with spare columns, z [3, 4, n].
TEST(Backends, ArithmeticWithBroadcasting) {
  for_lengths(1, [](int64_t n) {
    for (const BinaryOp op : {BinaryOp::add, BinaryOp::subtract, BinaryOp::multiply, BinaryOp::divide}) {
      for (const Accumulate accumulate : kBoth) {
        expect_agreement(sizes("binary", n, accumulate), 2e-6, [&](Call& call) {
          call.kernels.binary({.op = op,
                               .extents = {1, 1, 3, 4, n},
                               .x_strides = {0, 0, n, 0, 1},
                               .y_strides = {0, 0, 0, n + 3, 1},
                               .z_strides = {0, 0, 4 * n, n, 1},
                               .x = call.input(3 * n, 1),
                               .y = call.input(4 * (n + 3), 2),
                               .z = call.output(12 * n),
                               .accumulate = accumulate});
        });
      }
    }
  });
}

TEST(Backends, SumsAlongAnAxis) {
  for_lengths(0, [](int64_t n) {
    for (const Accumulate accumulate : kBoth) {
      for (const auto& [count, inner] : {std::pair<int64_t, int64_t>{n, 5}, {6, n}, {n, 1}}) {
        expect_agreement(sizes("sum_axis", n, accumulate), 5e-6, [&](Call& call) {
          call.kernels.sum_axis({.x = call.input(3 * count * inner, 1),
                                 .outer = 3,
                                 .count = count,
                                 .inner = inner,
                                 .factor = 0.7f,
                                 .y = call.output(3 * inner),
                                 .accumulate = accumulate});
        });
      }
    }
  });
}

TEST(Backends, BatchedProducts) {
  for_lengths(1, [](int64_t n) {
    for (const Accumulate accumulate : kBoth) {
      for (const int transposed : {0, 1, 2}) {
        expect_agreement(sizes("batched_product", n, accumulate), 1e-5, [&](Call& call) {
          call.kernels.batched_product({.x = call.input(2 * 5 * n, 1),
                                        .y = call.input(2 * 7 * n, 2),
                                        .z = call.output(2 * 5 * 7),
                                        .batch = 2,
                                        .m = 5,
                                        .k = n,
                                        .n = 7,
                                        .x_transposed = transposed == 1,
                                        .y_transposed = transposed == 2,
                                        .accumulate = accumulate});
        });
      }
    }
  });
}

// Segments of 3, 0, 1 and 5 rows.
TEST(Backends, Pooling) {
  const std::vector<int32_t> offsets{0, 3, 3, 4, 9};
  for_lengths(0, [&](int64_t n) {
    const Segments segments{.offsets = offsets.data(), .segments = 4, .cols = n};
    expect_agreement(sizes("segment_mean", n), 1e-6, [&](Call& call) {
      call.kernels.segment_mean({segments, call.input(9 * n, 1), call.output(4 * n)});
    });
    for (const Accumulate accumulate : kBoth) {
      expect_agreement(sizes("segment_mean_backward", n, accumulate), 1e-6, [&](Call& call) {
        call.kernels.segment_mean_backward({segments, call.input(4 * n, 1), call.output(9 * n), accumulate});
      });
    }
    // The backward pass adds to the rows of the maxima.
    expect_agreement(sizes("segment_max", n), 1e-6, [&](Call& call) {
      const int32_t* const rows = call.input(std::vector<int32_t>(static_cast<size_t>(4 * n), -7));
      call.kernels.segment_max(
          {segments, call.input(9 * n, 1), call.output(4 * n), const_cast<int32_t*>(rows)});
      call.kernels.segment_max_backward({segments, call.input(4 * n, 2), rows, call.output(9 * n)});
    });
  });
}

TEST(Backends, LossOfLabelsAndSoftmaxGradients) {
  const std::vector<int32_t> labels{0, -100, 0, 0};
  for_lengths(1, [&](int64_t n) {
    for (const bool weighted : {false, true}) {
      for (const Accumulate accumulate : kBoth) {
        expect_agreement(sizes("label_loss", n, accumulate), 5e-6, [&](Call& call) {
          std::vector<int32_t> own = labels;
          own[2] = static_cast<int32_t>(n - 1);
          own[3] = static_cast<int32_t>(n / 2);
          const LabelLoss loss{.logits = call.input(4 * n, 1, 5),
                               .labels = call.input(own),
                               .class_weights = weighted ? call.input(n, 2) : nullptr,
                               .rows = 4,
                               .cols = n,
                               .smoothing = 0.1f};
          float* const log_sum_exp = call.output(4);
          call.kernels.label_loss({loss, call.output(4), log_sum_exp});
          call.kernels.label_loss_backward(
              {loss, log_sum_exp, call.input(4, 3), call.output(4 * n), accumulate});
        });
      }
    }
    for (const bool log : {false, true}) {
      for (const Accumulate accumulate : kBoth) {
        expect_agreement(sizes("softmax_backward", n, accumulate), 5e-6, [&](Call& call) {
          call.kernels.softmax_backward({.log = log,
                                         .y = call.input(3 * n, 1),
                                         .dy = call.input(3 * n, 2),
                                         .rows = 3,
                                         .cols = n,
                                         .dx = call.output(3 * n),
                                         .accumulate = accumulate});
        });
      }
    }
  });
}

TEST(Backends, EntriesOfACache) {
  for_lengths(1, [](int64_t n) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::q8_0}) {
      expect_agreement(sizes(name_of(dtype), n), 0, [&](Call& call) {
        const int64_t unit = layout_of(dtype).block, key_width = n * unit, value_width = (n + 1) * unit;
        const int64_t width = key_width + value_width;
        const DeviceAddress<void> block(call.output(3 * width)), copy(call.output(3 * width));
        const std::vector<int32_t> numbers{2, 0, 1};
        const CacheRow row{{&block, 1}, numbers}, other{{&copy, 1}, numbers};
        call.kernels.store_cached({.key_width = key_width,
                                   .value_width = value_width,
                                   .keys = call.input(3 * (key_width + 2), 1),
                                   .values = call.input(3 * (value_width + 3), 2),
                                   .key_stride = key_width + 2,
                                   .value_stride = value_width + 3,
                                   .dtype = dtype,
                                   .to = {&row, 1}});
        call.kernels.copy_cached({.from = row, .to = other, .bytes = bytes_of(dtype, width)});
        call.kernels.load_cached(
            {.width = width, .dtype = dtype, .from = {&other, 1}, .to = call.output(3 * width)});
      });
    }
  });
}

}  // namespace
}  // namespace qkv::kernels
