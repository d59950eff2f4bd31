#include "qkv/explain/kernel_speed.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"
#include "qkv/kernels/counters.h"
#include "qkv/kernels/cpu/attention.h"
#include "qkv/kernels/cpu/embedding.h"
#include "qkv/kernels/cpu/loss.h"
#include "qkv/kernels/cpu/norm.h"
#include "qkv/kernels/cpu/pointwise.h"
#include "qkv/kernels/matmul.h"
#include "qkv/kernels/optimizer.h"
#include "qkv/ops/weight_form.h"
#include "qkv/ops/weight_rows.h"
#include "qkv/tensor/tensor.h"

namespace qkv::explain {
namespace {

using kernels::Accumulate;
using kernels::Activation;
using kernels::Dropout;

Tensor random(const Shape& shape, uint64_t seed) {
  Tensor numbers = Tensor::empty(shape);
  RandomStream stream(seed);
  for (float& x : numbers.values()) x = 2 * stream.uniform() - 1;
  return numbers;
}

Tensor random_ids(int64_t count, int64_t bound, uint64_t seed) {
  Tensor ids = Tensor::empty({count}, DType::i32);
  RandomStream stream(seed);
  for (int32_t& id : ids.values<int32_t>())
    id = static_cast<int32_t>(stream.below(static_cast<uint64_t>(bound)));
  return ids;
}

kernels::Matrix matrix(const Tensor& x) { return {x.data(), x.rows(), x.cols(), x.row_stride()}; }
kernels::MutableMatrix mutable_matrix(const Tensor& x) {
  return {x.data(), x.rows(), x.cols(), x.row_stride()};
}

constexpr Dropout kDropout{.rate = 0.1f, .seed = 1, .step = 1, .site = 1};

// Runs kernels one after the other and keeps what was measured.
class Stopwatch {
 public:
  explicit Stopwatch(const KernelSpeedOptions& options) : options_(options) {}

  bool stopped() const { return options_.stop && options_.stop(); }

  template <class Call>
  void time(const std::string& kernel, const std::string& shape, const Call& call) {
    if (stopped()) return;
    call();  // pages, caches, compiled products
    KernelSpeed speed{.kernel = kernel, .shape = shape};
    const uint64_t macs = kernels::counted_macs(), bytes = kernels::counted_bytes();
    std::vector<double> seconds;
    double sum = 0;
    while (sum < options_.seconds || seconds.size() < 3) {
      const auto begin = std::chrono::steady_clock::now();
      call();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      sum += seconds.back();
    }
    speed.calls = static_cast<int64_t>(seconds.size());
    speed.macs = (kernels::counted_macs() - macs) / static_cast<uint64_t>(speed.calls);
    speed.bytes = (kernels::counted_bytes() - bytes) / static_cast<uint64_t>(speed.calls);
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    speed.seconds = std::max(*middle, 1e-9);
    if (options_.on_result) options_.on_result(speed);
    speeds_.push_back(speed);
  }

  std::vector<KernelSpeed> take() { return std::move(speeds_); }

 private:
  const KernelSpeedOptions& options_;
  std::vector<KernelSpeed> speeds_;
};

void products(Stopwatch& watch) {
  struct Size {
    int64_t rows, inputs, outputs;
  };
  for (const Size size : {Size{2048, 512, 512}, Size{2048, 512, 2048}, Size{2048, 2048, 512},
                          Size{2048, 256, 1024}, Size{2048, 256, 256}}) {
    const std::string shape = concat(size.rows, " x ", size.inputs, " x ", size.outputs);
    const Tensor x = random({size.rows, size.inputs}, 1), w = random({size.outputs, size.inputs}, 2);
    const Tensor y = random({size.rows, size.outputs}, 3);
    const auto packed = kernels::PackedMatrix::transposed(std::vector{matrix(w)});
    watch.time("linear, packed", shape,
               [&] { kernels::matmul(matrix(x), packed, nullptr, mutable_matrix(y), Accumulate::no); });
    watch.time("weight gradient", shape, [&] {
      kernels::matmul_transposed_a(matrix(y), matrix(x), mutable_matrix(w), Accumulate::no);
    });
  }
  const Tensor w = random({512, 512}, 4);
  watch.time("packing a weight", "512 x 512",
             [&] { kernels::PackedMatrix::transposed(std::vector{matrix(w)}); });
}

// Weights that are read where they lie, for many rows and as in decoding.
void products_of_kept_weights(Stopwatch& watch) {
  constexpr int64_t kInputs = 512, kOutputs = 2048;
  const Tensor w = random({kOutputs, kInputs}, 1);
  for (const WeightForm form : {WeightForm::f32, WeightForm::bf16, WeightForm::int8}) {
    const FormedWeight weight = in_form({w}, form);
    const auto kept = kernels::PackedMatrix::kept(std::vector{weight_rows(weight.value, weight.scales)});
    for (const int64_t rows : {2048, 64, 4, 1}) {
      const Tensor x = random({rows, kInputs}, 2), y = random({rows, kOutputs}, 3);
      watch.time(concat("linear, ", name_of(form)), concat(rows, " x ", kInputs, " x ", kOutputs),
                 [&] { kernels::matmul(matrix(x), kept, nullptr, mutable_matrix(y), Accumulate::no); });
    }
  }
}

// About 4,096 tokens in sequences of one length; queries, keys and values are columns of one matrix.
void attention(Stopwatch& watch, int64_t length, bool causal) {
  constexpr int64_t kHeads = 8, kWidth = 64, kModel = kHeads * kWidth;
  const int64_t sequences = std::max<int64_t>(1, 4096 / length), tokens = sequences * length;
  std::vector<int32_t> offsets;
  for (int64_t s = 0; s <= sequences; ++s) offsets.push_back(static_cast<int32_t>(s * length));
  const Tensor qkv = random({tokens, 3 * kModel}, 1), gradient = random({tokens, 3 * kModel}, 2);
  const Tensor output = random({tokens, kModel}, 3), upstream = random({tokens, kModel}, 4);
  const Tensor log_sum_exp = Tensor::empty({kHeads, tokens});
  const kernels::AttentionShape shape{.sequences = sequences,
                                      .query_offsets = offsets.data(),
                                      .key_offsets = offsets.data(),
                                      .heads = kHeads,
                                      .d_k = kWidth,
                                      .d_v = kWidth,
                                      .scale = 1 / std::sqrt(static_cast<float>(kWidth)),
                                      .causal = causal};
  constexpr int64_t kStride = 3 * kModel;
  const kernels::AttentionInput input{.query = qkv.data(),
                                      .key = qkv.data() + kModel,
                                      .value = qkv.data() + 2 * kModel,
                                      .query_stride = kStride,
                                      .key_stride = kStride,
                                      .value_stride = kStride};
  const kernels::AttentionOutput to{
      .output = output.data(), .output_stride = kModel, .log_sum_exp = log_sum_exp.data()};
  const kernels::AttentionGradients gradients{.query = gradient.data(),
                                              .key = gradient.data() + kModel,
                                              .value = gradient.data() + 2 * kModel,
                                              .query_stride = kStride,
                                              .key_stride = kStride,
                                              .value_stride = kStride};
  const std::string name =
      concat(kHeads, " heads of ", kWidth, ", ", sequences, " x ", length, causal ? ", causal" : "");
  watch.time("attention", name, [&] { kernels::cpu::attention_forward(shape, input, to); });
  watch.time("attention backward", name, [&] {
    kernels::cpu::attention_backward(shape, input, output.data(), kModel, log_sum_exp.data(), upstream.data(),
                                     kModel, gradients);
  });
}

// One new token for each of 32 hypotheses, over keys and values that are remembered.
void decode_attention(Stopwatch& watch) {
  constexpr int64_t kHeads = 8, kWidth = 64, kModel = kHeads * kWidth, kRows = 32, kKeys = 256;
  std::vector<int32_t> rows(kRows + 1), keys(kRows + 1);
  std::iota(rows.begin(), rows.end(), 0);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<int32_t>(i) * kKeys;
  const Tensor query = random({kRows, kModel}, 1), key = random({kRows * kKeys, kModel}, 2);
  const Tensor value = random({kRows * kKeys, kModel}, 3), output = Tensor::empty({kRows, kModel});
  watch.time("attention, one query", concat(kHeads, " heads of ", kWidth, ", ", kRows, " x ", kKeys, " keys"),
             [&] {
               kernels::cpu::attention_forward({.sequences = kRows,
                                                .query_offsets = rows.data(),
                                                .key_offsets = keys.data(),
                                                .heads = kHeads,
                                                .d_k = kWidth,
                                                .d_v = kWidth,
                                                .scale = 1 / std::sqrt(static_cast<float>(kWidth))},
                                               {.query = query.data(),
                                                .key = key.data(),
                                                .value = value.data(),
                                                .query_stride = kModel,
                                                .key_stride = kModel,
                                                .value_stride = kModel},
                                               {.output = output.data(), .output_stride = kModel});
             });
}

void norm(Stopwatch& watch) {
  constexpr int64_t kRows = 2048, kCols = 512;
  const Tensor x = random({kRows, kCols}, 1), branch = random({kRows, kCols}, 2),
               dy = random({kRows, kCols}, 3);
  const Tensor sum = Tensor::empty({kRows, kCols}), y = Tensor::empty({kRows, kCols});
  const Tensor gain = random({kCols}, 4), shift = random({kCols}, 5);
  const Tensor mean = Tensor::empty({kRows}), deviation = Tensor::empty({kRows});
  watch.time("residual + norm", "2048 x 512, dropout", [&] {
    kernels::cpu::norm_forward(
        {.x = x.data(),
         .residual = branch.data(),
         .dropout = kDropout,
         .weight = gain.data(),
         .bias = shift.data(),
         .rows = kRows,
         .cols = kCols},
        {.sum = sum.data(), .y = y.data(), .mean = mean.data(), .rstd = deviation.data()});
  });
  const Tensor dz = Tensor::empty({kRows, kCols}), d_branch = Tensor::empty({kRows, kCols});
  watch.time("residual + norm backward", "2048 x 512, dropout", [&] {
    kernels::cpu::norm_backward({.z = sum.data(),
                                 .weight = gain.data(),
                                 .mean = mean.data(),
                                 .rstd = deviation.data(),
                                 .dy = dy.data(),
                                 .rows = kRows,
                                 .cols = kCols,
                                 .dz = dz.data(),
                                 .residual_gradient = d_branch.data(),
                                 .dropout = kDropout,
                                 .weight_gradient = gain.data(),
                                 .bias_gradient = shift.data()});
  });
}

void activations(Stopwatch& watch) {
  constexpr int64_t kRows = 2048, kCols = 2048;
  const Tensor x = random({kRows, kCols}, 1), dy = random({kRows, kCols}, 2),
               y = Tensor::empty({kRows, kCols});
  const auto both = [&](const std::string& name, Activation activation, const Dropout& dropout) {
    const std::string shape = dropout.active() ? "2048 x 2048, dropout" : "2048 x 2048";
    watch.time(name, shape,
               [&] { kernels::cpu::activate(activation, x.data(), y.data(), kRows, kCols, dropout); });
    watch.time(name + " backward", shape, [&] {
      kernels::cpu::activate_backward(activation, x.data(), dy.data(), y.data(), kRows, kCols, dropout,
                                      Accumulate::no);
    });
  };
  both("ReLU", Activation::relu, {});
  both("ReLU", Activation::relu, kDropout);
  both("GELU", Activation::gelu_exact, {});
}

void loss(Stopwatch& watch) {
  constexpr int64_t kRows = 512, kVocabulary = 8000;
  const Tensor logits = random({kRows, kVocabulary}, 1), bias = random({kVocabulary}, 2);
  const Tensor labels = random_ids(kRows, kVocabulary, 3), losses = Tensor::empty({2, kRows});
  // The gradient takes the logits' place, so later turns begin from smaller numbers: the work is the same.
  watch.time("softmax cross-entropy", "512 x 8000", [&] {
    kernels::cpu::cross_entropy({.logits = logits.data(),
                                 .bias = bias.data(),
                                 .labels = labels.data<int32_t>(),
                                 .rows = kRows,
                                 .cols = kVocabulary,
                                 .smoothing = 0.1f,
                                 .loss = losses.data(),
                                 .nll = losses.data() + kRows});
  });
}

void optimizer(Stopwatch& watch) {
  constexpr int64_t kCount = 10000000;
  const Tensor value = random({kCount}, 1), gradient = random({kCount}, 2), average = random({kCount}, 3);
  const Tensor first = Tensor::zeros({kCount}), second = Tensor::zeros({kCount});
  const std::vector<kernels::AdamSlot> slots{{.value = value.data(),
                                              .gradient = gradient.data(),
                                              .first_moment = first.data(),
                                              .second_moment = second.data(),
                                              .average = average.data(),
                                              .count = kCount}};
  int64_t step = 0;
  watch.time("Adam", "10 million weights, average",
             [&] { kernels::adam({.learning_rate = 1e-4f, .step = ++step}, slots, 0.999f); });
  watch.time("norm of gradients", "10 million", [&] { kernels::sum_of_squares(gradient.data(), kCount); });
}

void embedding(Stopwatch& watch) {
  constexpr int64_t kTokens = 2048, kCols = 512, kVocabulary = 8000;
  const Tensor table = random({kVocabulary, kCols}, 1), positions = random({64, kCols}, 2);
  const Tensor ids = random_ids(kTokens, kVocabulary, 3), places = random_ids(kTokens, 64, 4);
  const Tensor y = random({kTokens, kCols}, 5);
  watch.time("embedding", "2048 x 512, dropout", [&] {
    kernels::cpu::embedding_forward({.table = {.data = table.data(), .rows = kVocabulary, .cols = kCols},
                                     .ids = ids.data<int32_t>(),
                                     .factor = 22.6f,
                                     .positions = positions.data(),
                                     .position = places.data<int32_t>(),
                                     .tokens = kTokens,
                                     .cols = kCols,
                                     .dropout = kDropout,
                                     .y = y.data()});
  });
  watch.time("embedding backward", "2048 x 512, dropout", [&] {
    kernels::cpu::embedding_backward(y.data(), ids.data<int32_t>(), 22.6f, kTokens, kCols, kVocabulary,
                                     kDropout, table.data());
  });
}

}  // namespace

std::vector<KernelSpeed> measure_kernels(const KernelSpeedOptions& options) {
  if (!(options.seconds > 0)) {
    throw UsageError(concat("seconds for each kernel: expected more than 0, found ", options.seconds));
  }
  Stopwatch watch(options);
  products(watch);
  products_of_kept_weights(watch);
  for (const int64_t length : {32, 128, 512, 2048}) {
    attention(watch, length, false);
    attention(watch, length, true);
  }
  decode_attention(watch);
  norm(watch);
  activations(watch);
  loss(watch);
  optimizer(watch);
  embedding(watch);
  return watch.take();
}

}  // namespace qkv::explain
