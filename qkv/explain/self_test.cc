#include "qkv/explain/self_test.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <set>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/base/philox.h"
#include "qkv/kernels/matmul.h"
#include "qkv/nn/encoder.h"
#include "qkv/nn/parameter.h"
#include "qkv/ops/quantize.h"
#include "qkv/ops/tape.h"

namespace qkv::explain {
namespace {

using kernels::Accumulate;

constexpr int64_t kWidth = 64;

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  Tensor x = Tensor::empty(shape);
  RandomStream stream(seed);
  for (float& element : x.values()) element = 2 * stream.uniform() - 1;
  return x;
}

struct Outcome {
  bool passed = false;
  std::string found;
};

// The largest |found - expected|, relative to the bound of its element.
class Errors {
 public:
  void add(double found, double expected, double bound) {
    const double error = std::abs(found - expected) / bound;
    if (error > largest_ || std::isnan(error)) largest_ = error;  // a NaN stays: comparisons are false
  }
  Outcome outcome() const {
    return {largest_ <= 1, concat("largest error ", largest_, " of the rounding bound")};
  }

 private:
  double largest_ = 0;
};

// Sizes that are not multiples of vectors, and sizes that span tiles and blocks.
constexpr std::array<std::array<int64_t, 3>, 4> kSizes = {
    {{1, 65, 7}, {5, 200, 33}, {70, 515, 129}, {200, 128, 256}}};
constexpr double kEpsilon = 1.2e-7;  // of f32

// y = x w^T + bias against sums in double precision; `step` bounds the rounding error of
// each input of a row.
template <class Step>
Outcome check_product(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
                      const Step& step) {
  Errors errors;
  const int64_t k = x.cols();
  for (int64_t row = 0; row < x.rows(); ++row) {
    const double rounding = step(row);
    const float* const input = x.data() + row * k;
    for (int64_t col = 0; col < w.rows(); ++col) {
      double sum = bias.at(col), size = std::abs(sum), weights = 0;
      const float* const column = w.data() + col * k;
      for (int64_t i = 0; i < k; ++i) {
        const double weight = column[i], product = input[i] * weight;
        sum += product;
        size += std::abs(product);
        weights += std::abs(weight);
      }
      errors.add(y.at(row, col), sum, kEpsilon * 8 * size + rounding * weights);
    }
  }
  return errors.outcome();
}

double no_rounding(int64_t /*row*/) { return 0; }

// Runs check(rows, k, n) for all sizes; returns the first failure, or the last outcome.
template <class Check>
Outcome for_sizes(const Check& check) {
  Outcome outcome;
  for (const auto& [rows, k, n] : kSizes) {
    outcome = check(rows, k, n);
    if (!outcome.passed) return {false, concat(rows, " x ", k, " by ", n, ": ", outcome.found)};
  }
  return outcome;
}

Tensor rounded(const Tensor& x, DType dtype) { return dequantize(to_dtype({x}, dtype)); }

Outcome packed_products(const KernelsUnderTest& kernels, DType operands) {
  return for_sizes([&](int64_t rows, int64_t k, int64_t n) {
    const Tensor x = random_tensor({rows, k}, 1), w = random_tensor({n, k}, 2), bias = random_tensor({n}, 3);
    return check_product(kernels.packed_product(x, w, bias, operands), rounded(x, operands),
                         rounded(w, operands), bias, no_rounding);
  });
}

Outcome products_in_place(const KernelsUnderTest& kernels, DType dtype) {
  return for_sizes([&](int64_t rows, int64_t k, int64_t n) {
    const Tensor x = random_tensor({rows, k}, 1), bias = random_tensor({n}, 3);
    const QuantizedTensor w = to_dtype({random_tensor({n, k}, 2)}, dtype);
    // Inputs of int8 products are rounded to 255 steps between the minimum and the maximum of the row and
    // zero.
    const auto step = [&](int64_t row) {
      if (dtype != DType::i8) return 0.0;
      float low = 0, high = 0;
      for (int64_t i = 0; i < k; ++i) {
        low = std::min(low, x.at(row, i));
        high = std::max(high, x.at(row, i));
      }
      return 0.51 * (double{high} - low) / 255;
    };
    return check_product(kernels.product_in_place(x, w, bias), x, dequantize(w), bias, step);
  });
}

Outcome weight_gradients(const KernelsUnderTest& kernels, DType operands) {
  return for_sizes([&](int64_t rows, int64_t k, int64_t n) {
    const Tensor dy = random_tensor({rows, n}, 1), x = random_tensor({rows, k}, 2);
    const Tensor found = kernels.weight_gradient(dy, x, operands);
    const Tensor read_dy = rounded(dy, operands), read_x = rounded(x, operands);
    const float *const left = read_dy.data(), *const right = read_x.data();
    Errors errors;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < k; ++j) {
        double sum = 0, size = 0;
        for (int64_t row = 0; row < rows; ++row) {
          const double product = double{left[row * n + i]} * right[row * k + j];
          sum += product;
          size += std::abs(product);
        }
        errors.add(found.at(i, j), sum, kEpsilon * 8 * size);
      }
    }
    return errors.outcome();
  });
}

// Elements ((n * factor + addend) mod modulus - modulus / 2) / 8, which floats hold exactly.
Tensor pattern(const Shape& shape, int64_t factor, int64_t addend, int64_t modulus) {
  Tensor x = Tensor::empty(shape);
  const int64_t half = modulus / 2;
  for (int64_t n = 0; n < x.numel(); ++n)
    x.values()[n] = static_cast<float>((n * factor + addend) % modulus - half) / 8;
  return x;
}

// Causal, 2 heads of 4 and 2 features; the 3 queries are the last of 4 positions. The values come from a
// Python program in double precision.
Outcome recorded_attention(const KernelsUnderTest& kernels) {
  constexpr std::array<double, 12> kExpected = {-0.415958538, -0.0409585376, 0.312011729, 0.00488271316,
                                                -0.358143307, 0.0168566925,  0.384397786, -0.192832704,
                                                -0.330070663, 0.0449293368,  0.42341332,  -0.19743083};
  const Tensor output = kernels.attention(
      pattern({3, 8}, 7, 3, 17), pattern({4, 8}, 5, 2, 13), pattern({4, 4}, 3, 1, 11), 2,
      {.causal = true, .query_offsets = Offsets::uniform(1, 3), .key_offsets = Offsets::uniform(1, 4)});
  Errors errors;
  for (size_t i = 0; i < kExpected.size(); ++i) errors.add(output.values()[i], kExpected[i], 1e-6);
  return errors.outcome();
}

// softmax(Q K^T scale) V by its definition, for sequences shorter and longer than a tile of keys.
Outcome attention_by_definition(const KernelsUnderTest& kernels, bool causal) {
  constexpr int64_t kHeads = 3, kKey = 20, kValue = 12;
  const Offsets offsets = Offsets::of_lengths(std::vector<int32_t>{1, 37, 150});
  const Tensor query = random_tensor({offsets.tokens(), kHeads * kKey}, 1),
               key = random_tensor({offsets.tokens(), kHeads * kKey}, 2),
               value = random_tensor({offsets.tokens(), kHeads * kValue}, 3);
  const float scale = 1 / std::sqrt(static_cast<float>(kKey));
  const Tensor output = kernels.attention(
      query, key, value, kHeads, {.causal = causal, .query_offsets = offsets, .key_offsets = offsets});
  Errors errors;
  for (int64_t s = 0; s < offsets.sequences(); ++s) {
    for (int64_t i = offsets.begin(s); i < offsets.end(s); ++i) {
      for (int64_t h = 0; h < kHeads; ++h) {
        const int64_t end = causal ? i + 1 : offsets.end(s);
        std::array<double, kValue> sum{};
        double total = 0;
        for (int64_t j = offsets.begin(s); j < end; ++j) {
          double score = 0;
          for (int64_t c = h * kKey; c < (h + 1) * kKey; ++c) score += double{query.at(i, c)} * key.at(j, c);
          const double weight = std::exp(score * double{scale});  // the scores are small
          total += weight;
          for (size_t c = 0; c < sum.size(); ++c)
            sum[c] += weight * value.at(j, h * kValue + static_cast<int64_t>(c));
        }
        for (size_t c = 0; c < sum.size(); ++c)
          errors.add(output.at(i, h * kValue + static_cast<int64_t>(c)), sum[c] / total, 2e-6);
      }
    }
  }
  return errors.outcome();
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

Offsets batch() { return Offsets::of_lengths(std::vector<int32_t>{5, 90, 1, 33, 64}); }

Outcome same_bits_in_a_batch(const KernelsUnderTest& kernels, Device device) {
  std::vector<Offsets> batches;
  int64_t sequences = 0;
  if (!is_cuda(device)) batches.push_back(batch());
  for (const auto& lengths : {std::vector<int32_t>{3, 1, 4}, {30, 9, 70}, {150, 130}})
    batches.push_back(Offsets::of_lengths(lengths));
  for (const Offsets& offsets : batches) {
    const Tensor x = random_tensor({offsets.tokens(), kWidth}, 1);
    const Tensor together = kernels.layer(x, offsets);
    sequences += offsets.sequences();
    for (int64_t s = 0; s < offsets.sequences(); ++s) {
      const int64_t begin = offsets.begin(s), length = offsets.length(s);
      const Tensor alone = kernels.layer(x.slice_rows(begin, length), Offsets::uniform(1, length));
      if (!same_bits(alone, together.slice_rows(begin, length)))
        return {false,
                concat("the sequence of ", length, " tokens has different bits alone and in the batch")};
    }
  }
  return {true, concat(sequences, " sequences alone and together")};
}

// Compares the bits with 1, 2, 3 and threads() threads.
template <class Run>
Outcome same_bits_for_threads(const Run& run) {
  struct Restore {
    int before = threads();
    ~Restore() { set_threads(before); }
  } restore;
  set_threads(1);
  const Tensor x = random_tensor({batch().tokens(), kWidth}, 1);
  const Tensor one = run(x, batch());
  std::string counts = "1";
  for (const int count : std::set<int>{2, 3, restore.before}) {
    if (count == 1) continue;
    set_threads(count);
    if (!same_bits(run(x, batch()), one))
      return {false, concat("the bits with ", count, " threads differ from those with one")};
    counts += concat(", ", count);
  }
  return {true, counts + " threads"};
}

nn::EncoderLayer small_layer(float dropout, Device device) {
  nn::EncoderLayer layer({.d_model = kWidth, .heads = 4, .d_ff = 160, .dropout = dropout});
  nn::initialise(layer, /*seed=*/1);
  nn::move_to(layer, device);
  return layer;
}

Tensor gradients_of_layer(const Tensor& x, const Offsets& offsets, Device device) {
  const nn::EncoderLayer layer = small_layer(0.1f, device);
  nn::ForwardContext context{.training = true, .seed = 3, .step = 1};
  Tape tape;
  const Variable y = layer(from_host(x, device), offsets, {}, context);
  tape.backward(y, from_host(random_tensor(y.shape(), 4), device));
  std::vector<float> all;
  layer.visit([&](const std::string& /*name*/, const nn::Parameter& parameter) {
    const Tensor gradient = to_host(parameter.variable.grad());
    all.insert(all.end(), gradient.values().begin(), gradient.values().end());
  });
  return Tensor::from(all, {static_cast<int64_t>(all.size())});
}

Outcome gradients_as_on_the_cpu(const KernelsUnderTest& kernels) {
  const Tensor x = random_tensor({batch().tokens(), kWidth}, 1);
  const Tensor found = kernels.layer_gradients(x, batch()),
               expected = gradients_of_layer(x, batch(), Device::cpu);
  double size = 0;
  for (const float one : expected.values()) size = std::max(size, std::abs(double{one}));
  Errors errors;
  for (int64_t i = 0; i < expected.numel(); ++i)
    errors.add(found.values()[i], expected.values()[i], kEpsilon * 100 * size);
  return errors.outcome();
}

}  // namespace

KernelsUnderTest own_kernels(Device device) {
  const auto there = [device](const Tensor& x) { return x.defined() ? from_host(x, device) : x; };
  const auto result = [device](const Shape& shape) { return Tensor::empty(shape, DType::f32, device); };
  return {
      .packed_product =
          [=](const Tensor& x, const Tensor& w, const Tensor& bias, DType operands) {
            Tensor y = result({x.rows(), w.rows()});
            const Tensor weights = there(w);
            kernels::matmul(there(x), kernels::PackedMatrix::transposed({&weights, 1}, operands), there(bias),
                            y, Accumulate::no);
            return to_host(y);
          },
      .product_in_place =
          [=](const Tensor& x, const QuantizedTensor& w, const Tensor& bias) {
            Tensor y = result({x.rows(), w.values.rows()});
            const QuantizedTensor weights{there(w.values), there(w.scales)};
            kernels::matmul(there(x), kernels::WeightView({&weights, 1}), there(bias), y, Accumulate::no);
            return to_host(y);
          },
      .weight_gradient =
          [=](const Tensor& dy, const Tensor& x, DType operands) {
            Tensor dw = result({dy.cols(), x.cols()});
            kernels::matmul_transposed_a(there(dy), there(x), dw, Accumulate::no, operands);
            return to_host(dw);
          },
      .attention =
          [=](const Tensor& query, const Tensor& key, const Tensor& value, int64_t heads,
              const AttentionOptions& options) {
            return to_host(
                multihead_attention(there(query), there(key), there(value), heads, options).output.value());
          },
      .layer =
          [there, layer = std::make_shared<const nn::EncoderLayer>(small_layer(0, device))](
              const Tensor& x, const Offsets& offsets) {
            nn::ForwardContext context;
            return to_host((*layer)(there(x), offsets, {}, context).value());
          },
      .layer_gradients = [device](const Tensor& x,
                                  const Offsets& offsets) { return gradients_of_layer(x, offsets, device); },
  };
}

std::vector<SelfCheck> self_test(const SelfTestOptions& options) {
  const KernelsUnderTest& kernels = options.kernels;
  std::vector<std::pair<std::string, std::function<Outcome()>>> checks = {
      {"product, packed weights", [&] { return packed_products(kernels, DType::f32); }},
      {"product, packed weights, mixed precision", [&] { return packed_products(kernels, DType::bf16); }},
      {"product, f32 weights in place", [&] { return products_in_place(kernels, DType::f32); }},
      {"product, bf16 weights in place", [&] { return products_in_place(kernels, DType::bf16); }},
      {"product, f16 weights in place", [&] { return products_in_place(kernels, DType::f16); }},
      {"product, int8 weights in place", [&] { return products_in_place(kernels, DType::i8); }},
      {"gradient of a weight", [&] { return weight_gradients(kernels, DType::f32); }},
      {"gradient of a weight, mixed precision", [&] { return weight_gradients(kernels, DType::bf16); }},
      {"attention, recorded values", [&] { return recorded_attention(kernels); }},
      {"attention, by definition", [&] { return attention_by_definition(kernels, false); }},
      {"causal attention, by definition", [&] { return attention_by_definition(kernels, true); }},
      {"same bits in any batch", [&] { return same_bits_in_a_batch(kernels, options.device); }},
  };
  if (options.device == Device::cpu) {
    checks.emplace_back("same bits for any number of threads",
                        [&] { return same_bits_for_threads(kernels.layer); });
    checks.emplace_back("same gradients for any number of threads",
                        [&] { return same_bits_for_threads(kernels.layer_gradients); });
  } else {
    checks.emplace_back("gradients of a layer", [&] { return gradients_as_on_the_cpu(kernels); });
  }
  std::vector<SelfCheck> results;
  for (const auto& [name, check] : checks) {
    const auto begin = std::chrono::steady_clock::now();
    Outcome outcome;
    try {
      outcome = check();
    } catch (const std::exception& error) {
      outcome.found = error.what();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    results.push_back({name, outcome.passed, outcome.found, seconds.count()});
    if (options.on_result) options.on_result(results.back());
  }
  return results;
}

}  // namespace qkv::explain
