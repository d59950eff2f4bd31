// Time to open a base-size model folder (Vaswani et al. 2017, Table 3): weights are mapped, not read.
//
//   bench_load_model

#include <benchmark/benchmark.h>

#include <filesystem>

#include "qkv/models/hub/pretrained.h"

namespace {

using namespace qkv;

void open_base_model(benchmark::State& state) {
  const auto folder = std::filesystem::temp_directory_path() / "qkv-bench-load-model";
  models::TransformerConfig config = models::preset("base");
  config.source_vocabulary = config.target_vocabulary = 37000;
  {
    models::Transformer model(config);
    nn::initialise(model, 1);
    models::save_transformer(folder, model, {});
  }
  int64_t parameters = 0;
  for (auto _ : state) {
    const auto model = models::load_transformer(folder);
    benchmark::DoNotOptimize(parameters = nn::count_parameters(*model));
  }
  state.counters["parameters"] = static_cast<double>(parameters);
  state.counters["MB"] = static_cast<double>(parameters) * 4 / 1e6;
  std::filesystem::remove_all(folder);
}

BENCHMARK(open_base_model)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
