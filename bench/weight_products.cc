// Times products of one row of inputs, or a few, with weights of each dtype: as bytes of weights a second,
// from memory and from the L2 cache. If the two are equal, instructions limit the product, else memory.
//
//   bench_weight_products [ROWS [DTYPE...]]
//
// Prints a table for 1 and 2 threads. The weights are as many distinct matrices as fill 384 MiB, of the sizes
// of a feed-forward of a language model of a billion parameters; in the cache, the first rows of one of them.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/base/philox.h"
#include "qkv/kernels/cpu/kernels.h"
#include "qkv/kernels/cpu/matmul.h"
#include "qkv/kernels/limits.h"
#include "qkv/tensor/half.h"
#include "qkv/tensor/quantize_blocks.h"
#include "qkv/tensor/storage.h"

namespace {

using namespace qkv;
using namespace qkv::kernels;

constexpr size_t kMemory = size_t{384} << 20, kCache = size_t{256} << 10;

struct Sizes {
  int64_t outputs, inputs;
};
constexpr Sizes kSizes[] = {{5632, 2048}, {2048, 5632}};

std::vector<float> random(int64_t count, uint64_t seed) {
  RandomStream stream(seed);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& x : numbers) x = stream.uniform() * 2 - 1;
  return numbers;
}

// One row of weights.
std::vector<std::byte> random_row(DType dtype, int64_t inputs) {
  const std::vector<float> numbers = random(inputs, 1);
  std::vector<std::byte> row(bytes_of(dtype, inputs));
  float scale = 0;
  if (dtype == DType::i8) {
    cpu::quantize_rows(numbers.data(), 1, inputs, reinterpret_cast<int8_t*>(row.data()), &scale);
  } else {
    quantize_blocks(dtype, numbers.data(), inputs, row.data());
  }
  return row;
}

// Bytes of weights a second, in 10^9: the median of turns through all views, for at least half a second.
double rate(const std::vector<cpu::WeightView>& views, size_t bytes, int64_t rows) {
  const int64_t inputs = views[0].rows(), outputs = views[0].cols();
  const std::vector<float> x = random(rows * inputs, 2);
  std::vector<float> y(static_cast<size_t>(rows * outputs));
  const size_t turns = std::max<size_t>(1, kMemory / 8 / bytes);
  std::vector<double> seconds;
  for (double sum = 0; sum < 0.5 || seconds.size() < 4; sum += seconds.back()) {
    const auto begin = std::chrono::steady_clock::now();
    for (size_t turn = 0; turn < turns; ++turn) {
      for (const cpu::WeightView& view : views)
        cpu::matmul({x.data(), rows, inputs, inputs}, view, nullptr, {y.data(), rows, outputs, outputs},
                    Accumulate::no);
    }
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<int64_t>(seconds.size()) / 2,
                   seconds.end());
  return static_cast<double>(turns * bytes) / seconds[seconds.size() / 2] / 1e9;
}

void print_rates(DType dtype, Sizes sizes, int64_t rows) {
  const std::vector<std::byte> row = random_row(dtype, sizes.inputs);
  const size_t matrix = row.size() * static_cast<size_t>(sizes.outputs), count = kMemory / matrix;
  const Storage memory = allocate(count * matrix);
  for (size_t at = 0; at < count * matrix; at += row.size())
    std::memcpy(memory.get() + at, row.data(), row.size());
  const std::vector<float> scales(static_cast<size_t>(sizes.outputs), 0.01f);
  const auto view = [&](size_t place, int64_t outputs) {
    const WeightRows weights{memory.get() + place * matrix, dtype,
                             dtype == DType::i8 ? scales.data() : nullptr, outputs, sizes.inputs};
    return cpu::WeightView({&weights, 1});
  };
  std::vector<cpu::WeightView> all;
  for (size_t i = 0; i < count; ++i) all.push_back(view(i, sizes.outputs));
  for (const int threads : {1, 2}) {
    set_threads(threads);
    const int64_t cached =
        std::max<int64_t>(1, static_cast<int64_t>(kCache / row.size()) / 64) * 64 * threads;
    const double from_cache = rate({view(0, cached)}, row.size() * static_cast<size_t>(cached), rows);
    const double from_memory = rate(all, count * matrix, rows);
    const double readable = measure_limits().read_gb_per_s;
    std::printf("| %s | %lld x %lld | %d | %.1f | %.0f %% | %.1f |\n", name_of(dtype),
                static_cast<long long>(sizes.outputs), static_cast<long long>(sizes.inputs), threads,
                from_memory, 100 * from_memory / readable, from_cache);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int64_t rows = count > 1 ? std::atoll(arguments[1]) : 1;
  const std::vector<std::string> wanted(arguments + std::min(count, 2), arguments + count);
  std::vector<DType> dtypes{DType::f32, DType::f16, DType::bf16, DType::i8};
  dtypes.insert(dtypes.end(), kBlockDTypes.begin(), kBlockDTypes.end());
  std::printf("| dtype | outputs x inputs | threads | GB/s | of the read bandwidth | from L2, GB/s |\n");
  std::printf("| --- | --- | --- | --- | --- | --- |\n");
  for (const DType dtype : dtypes) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name_of(dtype)) == wanted.end()) continue;
    for (const Sizes sizes : kSizes) print_rates(dtype, sizes, rows);
  }
  return 0;
}
