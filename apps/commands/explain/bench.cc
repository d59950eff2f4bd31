// qkv bench

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/load_options.h"
#include "apps/stop.h"
#include "apps/terminal.h"
#include "qkv/explain/kernel_speed.h"
#include "qkv/kernels/limits.h"

namespace qkv::apps {
namespace {

struct BenchArguments {
  explain::KernelSpeedOptions options;
  bool json = false;
};

// What the kernels are compared with, and how it is shown.
struct Limits {
  double gflops = 0, gb_per_s = 0;
  std::string title;
  std::vector<std::vector<std::string>> rows;
  nlohmann::ordered_json json;
};

Limits shown(const kernels::MachineLimits& limits) {
  return {.gflops = limits.gflops,
          .gb_per_s = limits.bandwidth(),
          .title = kernels::processor_name(),
          .rows = {{"  instructions", kernels::instructions()},
                   {"  threads", std::to_string(limits.threads)},
                   {"  multiply-add peak", fixed(limits.gflops, 0) + " GFLOP/s"},
                   {"  memory, read", fixed(limits.read_gb_per_s, 1) + " GB/s"},
                   {"  memory, triad", fixed(limits.triad_gb_per_s, 1) + " GB/s"}},
          .json = {{"processor", kernels::processor_name()},
                   {"instructions", kernels::instructions()},
                   {"threads", limits.threads},
                   {"peak_gflops", limits.gflops},
                   {"read_gb_per_s", limits.read_gb_per_s},
                   {"triad_gb_per_s", limits.triad_gb_per_s}}};
}

Limits shown(const explain::DeviceLimits& limits, Device device) {
  return {.gflops = limits.gflops,
          .gb_per_s = limits.gb_per_s,
          .title = name_of(device),
          .rows = {{"  product in bf16", fixed(limits.gflops, 0) + " GFLOP/s"},
                   {"  memory, copy", fixed(limits.gb_per_s, 1) + " GB/s"}},
          .json = {{"device", name_of(device)},
                   {"product_gflops", limits.gflops},
                   {"copy_gb_per_s", limits.gb_per_s}}};
}

nlohmann::ordered_json json_of(const explain::KernelSpeed& speed, const Limits& limits) {
  nlohmann::ordered_json result = {
      {"kernel", speed.kernel},       {"shape", speed.shape},
      {"seconds", speed.seconds},     {"calls", speed.calls},
      {"macs", speed.macs},           {"bytes", speed.bytes},
      {"gb_per_s", speed.gb_per_s()}, {"of_bandwidth", speed.gb_per_s() / limits.gb_per_s}};
  if (speed.multiplies()) {
    result["gflops"] = speed.gflops();
    result["of_peak"] = speed.gflops() / limits.gflops;
  }
  return result;
}

constexpr const char* kNote =
    "\nGFLOP/s: two per required multiply-accumulate. GB/s: each input and output counted once; "
    "above\n"
    "100 % of the memory bandwidth, data came from a cache. Medians; on a device, means of calls in a row.\n";

void print(const Limits& limits, const std::vector<explain::KernelSpeed>& speeds) {
  const Style style = Style::for_stdout();
  std::cout << style.bold(limits.title) << '\n' << table_text(limits.rows) << '\n';
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "ms", "GFLOP/s", "of peak", "GB/s", "of bandwidth"}};
  for (const explain::KernelSpeed& speed : speeds) {
    const bool multiplies = speed.multiplies();
    rows.push_back({speed.kernel + ": " + speed.shape, fixed(1e3 * speed.seconds, 3),
                    multiplies ? fixed(speed.gflops(), 1) : "",
                    multiplies ? percent(speed.gflops() / limits.gflops) : "", fixed(speed.gb_per_s(), 1),
                    percent(speed.gb_per_s() / limits.gb_per_s)});
  }
  std::cout << table_text(rows) << style.dim(kNote);
}

// The machine's speed varies: the better of a measurement before the kernels and one after.
Limits measure(const explain::KernelSpeedOptions& options, std::vector<explain::KernelSpeed>& speeds) {
  if (options.device != Device::cpu) {
    const explain::DeviceLimits limits = explain::measure_device(options);
    speeds = explain::measure_kernels(options);
    return shown(limits, options.device);
  }
  kernels::MachineLimits limits = kernels::measure_limits();
  speeds = explain::measure_kernels(options);
  const kernels::MachineLimits after = kernels::measure_limits();
  limits.gflops = std::max(limits.gflops, after.gflops);
  limits.read_gb_per_s = std::max(limits.read_gb_per_s, after.read_gb_per_s);
  limits.triad_gb_per_s = std::max(limits.triad_gb_per_s, after.triad_gb_per_s);
  return shown(limits);
}

void bench(BenchArguments& arguments) {
  const StopSignals stop;
  arguments.options.stop = [&stop] { return stop.flag()->load(); };
  const bool talks = stderr_is_terminal();
  if (talks) {
    arguments.options.on_result = [](const explain::KernelSpeed& speed) {
      std::cerr << "\r\033[K" << speed.kernel << ' ' << speed.shape << std::flush;
    };
  }
  std::vector<explain::KernelSpeed> speeds;
  const Limits limits = measure(arguments.options, speeds);
  if (talks) std::cerr << "\r\033[K" << std::flush;

  if (arguments.json) {
    nlohmann::ordered_json result = limits.json;
    result["kernels"] = nlohmann::ordered_json::array();
    for (const explain::KernelSpeed& speed : speeds) result["kernels"].push_back(json_of(speed, limits));
    std::cout << result.dump(2) << '\n';
  } else {
    print(limits, speeds);
  }
  if (*stop.flag()) throw ExitStatus{stop.exit_status()};
}

}  // namespace

void add_bench(Command& app) {
  Command* command = add_command(
      app, "bench",
      "Measure this machine's peak rates (multiply-adds, memory) and the kernels relative to them: matrix\n"
      "products, attention, norm, activations, loss, optimizer, embedding. Takes about 15 seconds on\n"
      "an idle machine; Ctrl-C prints the results so far. With --device, a device's rates are those of a "
      "large\n"
      "product and of a copy.",
      "qkv bench\n  qkv bench --threads 1 --json > bench.json");
  const auto arguments = std::make_shared<BenchArguments>();
  add_option(*command, "--seconds", arguments->options.seconds, "SECONDS",
             "Time for each kernel at each shape");
  add_device_option(*command, arguments->options.device);
  command->add_flag("--json", arguments->json, "Print one JSON object");
  add_threads_option(*command);
  command->callback([arguments] { bench(*arguments); });
}

}  // namespace qkv::apps
