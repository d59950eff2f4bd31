#include "qkv/explain/kernel_speed.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"
#include "qkv/kernels/attention.h"
#include "qkv/kernels/counters.h"
#include "qkv/kernels/embedding.h"
#include "qkv/kernels/loss.h"
#include "qkv/kernels/matmul.h"
#include "qkv/kernels/norm.h"
#include "qkv/kernels/optimizer.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/ops/convert.h"
#include "qkv/ops/quantize.h"
#include "qkv/tensor/ragged.h"

namespace qkv::explain {
namespace {

using kernels::Accumulate;
using kernels::Activation;
using kernels::Dropout;

Tensor random_numbers(const Shape& shape, uint64_t seed) {
  Tensor numbers = Tensor::empty(shape);
  RandomStream stream(seed);
  for (float& x : numbers.values()) x = 2 * stream.uniform() - 1;
  return numbers;
}

Tensor some_ids(int64_t count, int64_t bound, uint64_t seed) {
  Tensor ids = Tensor::empty({count}, DType::i32);
  RandomStream stream(seed);
  for (int32_t& id : ids.values<int32_t>())
    id = static_cast<int32_t>(stream.below(static_cast<uint64_t>(bound)));
  return ids;
}

constexpr Dropout kDropout{.rate = 0.1f, .seed = 1, .step = 1, .site = 1};

// Runs kernels one by one and collects the measurements.
class Stopwatch {
 public:
  explicit Stopwatch(const KernelSpeedOptions& options) : options_(options) {}

  bool stopped() const { return options_.stop && options_.stop(); }

  // Tensors on the device.
  Tensor random(const Shape& shape, uint64_t seed, DType dtype = DType::f32) const {
    return in_dtype(from_host(random_numbers(shape, seed), options_.device), dtype).value();
  }
  Tensor random_ids(int64_t count, int64_t bound, uint64_t seed) const {
    return from_host(some_ids(count, bound, seed), options_.device);
  }
  Tensor empty(const Shape& shape) const { return Tensor::empty(shape, DType::f32, options_.device); }
  Tensor zeros(const Shape& shape) const { return Tensor::zeros(shape, DType::f32, options_.device); }

  template <class Call>
  void time(const std::string& kernel, const std::string& shape, const Call& call) {
    if (stopped()) return;
    KernelSpeed speed{.kernel = kernel, .shape = shape};
    const uint64_t macs = kernels::counted_macs(), bytes = kernels::counted_bytes();
    call();  // warm-up: page faults, caches, compiled products
    speed.macs = kernels::counted_macs() - macs;
    speed.bytes = kernels::counted_bytes() - bytes;
    if (options_.device == Device::cpu) {
      time_each(call, speed);
    } else {
      time_queued(call, speed);
    }
    speed.seconds = std::max(speed.seconds, 1e-9);
    if (options_.on_result) options_.on_result(speed);
    speeds_.push_back(speed);
  }

  std::vector<KernelSpeed> take() { return std::exchange(speeds_, {}); }

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  template <class Call>
  void time_each(const Call& call, KernelSpeed& speed) const {
    std::vector<double> seconds;
    double sum = 0;
    while (sum < options_.seconds || seconds.size() < 3) {
      const auto begin = Clock::now();
      call();
      seconds.push_back(since(begin));
      sum += seconds.back();
    }
    speed.calls = std::ssize(seconds);
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    speed.seconds = *middle;
  }

  // A wait for each call would be a part of what is measured.
  template <class Call>
  void time_queued(const Call& call, KernelSpeed& speed) const {
    const Tensor number = empty({1});
    to_host(number);
    for (speed.calls = 1;; speed.calls *= 2) {
      const auto begin = Clock::now();
      for (int64_t i = 0; i < speed.calls; ++i) call();
      to_host(number);
      const double seconds = since(begin);
      speed.seconds = seconds / static_cast<double>(speed.calls);
      if (seconds >= options_.seconds) return;
    }
  }

  const KernelSpeedOptions& options_;
  std::vector<KernelSpeed> speeds_;
};

void products(Stopwatch& stopwatch) {
  struct Size {
    int64_t rows, inputs, outputs;
  };
  for (const Size size : {Size{2048, 512, 512}, Size{2048, 512, 2048}, Size{2048, 2048, 512},
                          Size{2048, 256, 1024}, Size{2048, 256, 256}}) {
    const std::string shape = concat(size.rows, " x ", size.inputs, " x ", size.outputs);
    const Tensor x = stopwatch.random({size.rows, size.inputs}, 1);
    Tensor w = stopwatch.random({size.outputs, size.inputs}, 2),
           y = stopwatch.random({size.rows, size.outputs}, 3);
    const auto packed = kernels::PackedMatrix::transposed(std::vector{w});
    stopwatch.time("linear, packed", shape, [&] { kernels::matmul(x, packed, {}, y, Accumulate::no); });
    stopwatch.time("weight gradient", shape, [&] { kernels::matmul_transposed_a(y, x, w, Accumulate::no); });
  }
  const Tensor w = stopwatch.random({512, 512}, 4);
  stopwatch.time("packing a weight", "512 x 512", [&] { kernels::PackedMatrix::transposed(std::vector{w}); });
}

// Products that read weights in place, for many rows and for decoding.
void products_in_place(Stopwatch& stopwatch, int64_t inputs, int64_t outputs,
                       DType activations = DType::f32) {
  const Tensor w = stopwatch.random({outputs, inputs}, 1);
  for (const DType dtype : kWeightDTypes) {
    if (activations == DType::bf16 && dtype != DType::bf16) continue;
    const kernels::WeightView view(std::vector{to_dtype({w}, dtype)});
    for (const int64_t rows : {2048, 64, 4, 1}) {
      const Tensor x = stopwatch.random({rows, inputs}, 2, activations);
      Tensor y = Tensor::empty({rows, outputs}, activations, x.device());
      stopwatch.time(concat("linear, ", weight_dtype_name(dtype),
                            activations == DType::bf16 ? ", bf16 activations" : ""),
                     concat(rows, " x ", inputs, " x ", outputs),
                     [&] { kernels::matmul(x, view, {}, y, Accumulate::no); });
    }
  }
}

struct AttentionSize {
  int64_t length = 0;  // of each sequence
  bool causal = false;
  int64_t width = 64;  // of a head
  DType activations = DType::f32;
};

// About 4,096 tokens in sequences of one length; queries, keys and values are columns of one matrix.
void attention(Stopwatch& stopwatch, const AttentionSize& size) {
  constexpr int64_t kHeads = 8;
  const int64_t model = kHeads * size.width, sequences = std::max<int64_t>(1, 4096 / size.length),
                tokens = sequences * size.length;
  const Offsets offsets = Offsets::uniform(sequences, size.length);
  const Tensor qkv = stopwatch.random({tokens, 3 * model}, 1, size.activations);
  Tensor gradient = empty_like(qkv);
  const Tensor upstream = stopwatch.random({tokens, model}, 4, size.activations),
               output = empty_like(upstream);
  Tensor log_sum_exp = stopwatch.empty({kHeads, tokens});
  const kernels::AttentionTensors arguments{.query = qkv.columns(0, model),
                                            .key = qkv.columns(model, model),
                                            .value = qkv.columns(2 * model, model),
                                            .query_offsets = offsets,
                                            .key_offsets = offsets,
                                            .rule = {.heads = kHeads,
                                                     .key_heads = kHeads,
                                                     .scale = 1 / std::sqrt(static_cast<float>(size.width)),
                                                     .causal = size.causal}};
  const kernels::AttentionResultTensors results{.output = output, .log_sum_exp = log_sum_exp};
  const kernels::AttentionGradientTensors gradients{.query = {gradient.columns(0, model)},
                                                    .key = {gradient.columns(model, model)},
                                                    .value = {gradient.columns(2 * model, model)}};
  const std::string name =
      concat(kHeads, " heads of ", size.width, ", ", sequences, " x ", size.length,
             size.causal ? ", causal" : "", size.activations == DType::bf16 ? ", bf16" : "");
  stopwatch.time("attention", name, [&] { kernels::attention_forward(arguments, results); });
  stopwatch.time("attention backward", name,
                 [&] { kernels::attention_backward(arguments, output, log_sum_exp, upstream, gradients); });
}

// One new token for each of 32 hypotheses, over cached keys and values.
void decode_attention(Stopwatch& stopwatch) {
  constexpr int64_t kHeads = 8, kWidth = 64, kModel = kHeads * kWidth, kRows = 32, kKeys = 256;
  Tensor output = stopwatch.empty({kRows, kModel});
  const kernels::AttentionTensors arguments{
      .query = stopwatch.random({kRows, kModel}, 1),
      .key = stopwatch.random({kRows * kKeys, kModel}, 2),
      .value = stopwatch.random({kRows * kKeys, kModel}, 3),
      .query_offsets = Offsets::uniform(kRows, 1),
      .key_offsets = Offsets::uniform(kRows, kKeys),
      .rule = {.heads = kHeads, .key_heads = kHeads, .scale = 1 / std::sqrt(static_cast<float>(kWidth))}};
  stopwatch.time("attention, one query",
                 concat(kHeads, " heads of ", kWidth, ", ", kRows, " x ", kKeys, " keys"),
                 [&] { kernels::attention_forward(arguments, {.output = output}); });
}

void norm(Stopwatch& stopwatch) {
  constexpr int64_t kRows = 2048, kCols = 512;
  const Tensor x = stopwatch.random({kRows, kCols}, 1), residual = stopwatch.random({kRows, kCols}, 2),
               dy = stopwatch.random({kRows, kCols}, 3);
  Tensor sum = empty_like(x), y = empty_like(x);
  const Tensor weight = stopwatch.random({kCols}, 4), bias = stopwatch.random({kCols}, 5);
  Tensor mean = stopwatch.empty({kRows}), rstd = stopwatch.empty({kRows});
  stopwatch.time("residual + norm", "2048 x 512, dropout", [&] {
    kernels::norm_forward({.x = x,
                           .residual = residual,
                           .dropout = kDropout,
                           .weight = weight,
                           .bias = bias,
                           .sum = sum,
                           .y = y,
                           .mean = mean,
                           .rstd = rstd});
  });
  Tensor dz = empty_like(x), d_residual = empty_like(x);
  stopwatch.time("residual + norm backward", "2048 x 512, dropout", [&] {
    kernels::norm_backward({.dropout = kDropout,
                            .z = sum,
                            .weight = weight,
                            .mean = mean,
                            .rstd = rstd,
                            .dy = dy,
                            .dz = {dz},
                            .residual = {d_residual},
                            .d_weight = {weight},
                            .d_bias = {bias}});
  });
}

void activations(Stopwatch& stopwatch) {
  constexpr int64_t kRows = 2048, kCols = 2048;
  const Tensor x = stopwatch.random({kRows, kCols}, 1), dy = stopwatch.random({kRows, kCols}, 2);
  Tensor y = empty_like(x);
  const auto both = [&](const std::string& name, Activation activation, const Dropout& dropout) {
    const std::string shape = dropout.active() ? "2048 x 2048, dropout" : "2048 x 2048";
    stopwatch.time(name, shape, [&] { kernels::activate(activation, x, dropout, y); });
    stopwatch.time(name + " backward", shape,
                   [&] { kernels::activate_backward(activation, x, dy, dropout, {y}); });
  };
  both("ReLU", Activation::relu, {});
  both("ReLU", Activation::relu, kDropout);
  both("GELU", Activation::gelu_exact, {});
}

void loss(Stopwatch& stopwatch) {
  constexpr int64_t kRows = 512, kVocabulary = 8000;
  Tensor losses = stopwatch.empty({kRows}), nll = stopwatch.empty({kRows});
  const kernels::CrossEntropyTensors arguments{.logits = stopwatch.random({kRows, kVocabulary}, 1),
                                               .bias = stopwatch.random({kVocabulary}, 2),
                                               .labels = stopwatch.random_ids(kRows, kVocabulary, 3),
                                               .smoothing = 0.1f,
                                               .loss = losses,
                                               .nll = nll};
  // The gradient overwrites the logits, so later calls start from smaller numbers; the work is the same.
  stopwatch.time("softmax cross-entropy", "512 x 8000", [&] { kernels::cross_entropy(arguments); });
}

void optimizer(Stopwatch& stopwatch) {
  constexpr int64_t kCount = 10000000;
  const Tensor value = stopwatch.random({kCount}, 1), gradient = stopwatch.random({kCount}, 2),
               average = stopwatch.random({kCount}, 3);
  Tensor first = stopwatch.zeros({kCount}), second = stopwatch.zeros({kCount});
  std::vector<kernels::OptimizerSlot> slots{{.value = value,
                                             .gradient = gradient,
                                             .state = {first, second},
                                             .average = average,
                                             .learning_rate = 1e-4f,
                                             .step = 0}};
  stopwatch.time("Adam", "10 million weights, average", [&] {
    ++slots[0].step;
    kernels::adam({}, {.average_decay = 0.999f}, slots);
  });
  stopwatch.time("norm of gradients", "10 million", [&] { kernels::sums_of_squares({&gradient, 1}); });
}

void embedding(Stopwatch& stopwatch) {
  constexpr int64_t kTokens = 2048, kCols = 512, kVocabulary = 8000;
  Tensor table = stopwatch.random({kVocabulary, kCols}, 1);
  const Tensor positions = stopwatch.random({64, kCols}, 2);
  const Tensor ids = stopwatch.random_ids(kTokens, kVocabulary, 3), y = stopwatch.random({kTokens, kCols}, 5);
  const kernels::EmbeddingTensors arguments{.table = table,
                                            .ids = ids,
                                            .factor = 22.6f,
                                            .positions = positions,
                                            .position = stopwatch.random_ids(kTokens, 64, 4),
                                            .dropout = kDropout,
                                            .y = y};
  stopwatch.time("embedding", "2048 x 512, dropout", [&] { kernels::embedding_forward(arguments); });
  stopwatch.time("embedding backward", "2048 x 512, dropout",
                 [&] { kernels::embedding_backward(y, ids, 22.6f, kDropout, table); });
}

void validate(const KernelSpeedOptions& options) {
  if (!(options.seconds > 0))
    throw UsageError(concat("seconds for each kernel: expected more than 0, found ", options.seconds));
}

}  // namespace

DeviceLimits measure_device(const KernelSpeedOptions& options) {
  validate(options);
  const KernelSpeedOptions quiet{.seconds = options.seconds, .device = options.device, .stop = options.stop};
  Stopwatch stopwatch(quiet);
  // A device that takes long for small ones is not made to wait for large ones.
  DeviceLimits limits;
  double seconds = 0;
  for (int64_t size = 256; size <= 8192 && seconds < options.seconds && !stopwatch.stopped(); size *= 2) {
    const Tensor w = stopwatch.random({size, size}, 1), x = stopwatch.random({size, size}, 2, DType::bf16);
    Tensor y = empty_like(x);
    const auto packed = kernels::PackedMatrix::transposed(std::vector{w}, DType::bf16);
    stopwatch.time("", "", [&] { kernels::matmul(x, packed, {}, y, Accumulate::no); });
    for (const KernelSpeed& speed : stopwatch.take()) {
      limits.gflops = speed.gflops();
      seconds = speed.seconds;
    }
  }
  const Tensor numbers = stopwatch.random({int64_t{64} << 20}, 2);
  Tensor copied = stopwatch.empty(numbers.shape());
  stopwatch.time("", "", [&] { kernels::copy(numbers, copied, Accumulate::no); });
  for (const KernelSpeed& speed : stopwatch.take())
    limits.gb_per_s = 2e-9 * static_cast<double>(numbers.bytes()) / speed.seconds;
  return limits;
}

std::vector<KernelSpeed> measure_kernels(const KernelSpeedOptions& options) {
  validate(options);
  Stopwatch stopwatch(options);
  products(stopwatch);
  products_in_place(stopwatch, 512, 2048);
  for (const int64_t length : {32, 128, 512, 2048}) {
    attention(stopwatch, {.length = length});
    attention(stopwatch, {.length = length, .causal = true});
  }
  if (is_cuda(options.device)) {  // sizes that fill a GPU
    products_in_place(stopwatch, 4096, 16384);
    products_in_place(stopwatch, 4096, 16384, DType::bf16);
    for (const DType activations : {DType::f32, DType::bf16}) {
      attention(stopwatch, {.length = 32, .activations = activations});
      for (const bool causal : {false, true})
        attention(stopwatch, {.length = 4096, .causal = causal, .width = 128, .activations = activations});
    }
  }
  decode_attention(stopwatch);
  norm(stopwatch);
  activations(stopwatch);
  loss(stopwatch);
  optimizer(stopwatch);
  embedding(stopwatch);
  return stopwatch.take();
}

}  // namespace qkv::explain
