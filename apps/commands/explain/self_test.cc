// qkv self-test

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/folder_checks.h"
#include "apps/load_options.h"
#include "apps/terminal.h"
#include "qkv/base/parallel.h"
#include "qkv/base/processors.h"
#include "qkv/explain/self_test.h"
#include "qkv/kernels/instruction_set.h"
#include "qkv/kernels/libraries.h"
#include "qkv/kernels/limits.h"
#include "qkv/tensor/device_memory.h"

namespace qkv::apps {
namespace {

std::vector<std::string> instruction_set_names() {
  std::vector<std::string> names;
  for (const kernels::InstructionSet set : kernels::instruction_sets())
    names.emplace_back(kernels::name_of(set));
  return names;
}

nlohmann::ordered_json json_of_machine() {
  const std::optional<double> quota = cgroup_processors();
  return {{"processor", kernels::processor_name()},
          {"instruction_sets", instruction_set_names()},
          {"instruction_set", kernels::name_of(kernels::instruction_set())},
          {"threads", threads()},
          {"processors", available_processors()},
          {"cgroup_processors", quota ? nlohmann::ordered_json(*quota) : nlohmann::ordered_json()},
          {"versions",
           {{"qkv", QKV_VERSION},
            {"onednn", kernels::onednn_version()},
            {"highway", kernels::highway_version()}}}};
}

void print_machine(Device device) {
  const std::optional<double> quota = cgroup_processors();
  std::string sets;
  for (const std::string& name : instruction_set_names()) sets += (sets.empty() ? "" : ", ") + name;
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"device", name_of(device)},
      {"instruction sets", sets},
      {"in use", kernels::name_of(kernels::instruction_set())},
      {"threads", std::to_string(threads())},
      {"processors", std::to_string(available_processors())},
      {"cgroup quota", quota ? fixed(*quota, 2) + " processors" : "none"},
      {"versions", "qkv " QKV_VERSION ", oneDNN " + kernels::onednn_version() + ", Highway " +
                       kernels::highway_version()},
  };
  std::cout << Style::for_stdout().bold(kernels::processor_name()) << '\n';
  for (const auto& [name, value] : lines) std::cout << "  " << pad_right(name, 18) << value << '\n';
  std::cout << '\n' << std::flush;
}

void print_check(const explain::SelfCheck& check) {
  const Style style = Style::for_stdout();
  std::cout << (check.passed ? style.good("ok    ") : style.bad("FAILED")) << "  "
            << pad_right(check.name, 42) << style.dim(check.found) << '\n'
            << std::flush;
}

void self_test(Device device, bool json) {
  if (device != Device::cpu) device_memory(device);  // or an error: the device cannot be used
  if (!json) print_machine(device);
  explain::SelfTestOptions options{.device = device};
  if (!json) options.on_result = print_check;
  const std::vector<explain::SelfCheck> checks = explain::self_test(options);
  std::string failed;
  for (const explain::SelfCheck& check : checks) {
    if (!check.passed) failed += (failed.empty() ? "" : "; ") + check.name + ": " + check.found;
  }
  if (json) {
    nlohmann::ordered_json result = json_of_machine();
    result["device"] = name_of(device);
    result["passed"] = failed.empty();
    result["checks"] = nlohmann::ordered_json::array();
    for (const explain::SelfCheck& check : checks) {
      result["checks"].push_back({{"name", check.name},
                                  {"passed", check.passed},
                                  {"found", check.found},
                                  {"seconds", check.seconds}});
    }
    std::cout << result.dump(2) << '\n';
  }
  if (!failed.empty()) throw NumericError("self-test: " + failed);
}

}  // namespace

void add_self_test(Command& app) {
  Command* command = add_command(
      app, "self-test",
      "Check that this build computes correctly on this machine: products and attention against double\n"
      "precision and recorded values, and equal bits for all batches and numbers of threads. Prints the\n"
      "processor, its instruction sets and the libraries' versions. Takes a few seconds; status 1 and the\n"
      "check's name if one fails. QKV_ISA=avx2 (and others) limits the instruction set.\n"
      "With --device: the kernels of a device other than the CPU.\n"
      "With a folder: compare it with its qkv_proof.json, written at export: files, fields, checksums of\n"
      "tensors, vocabulary, ids of texts, outputs.",
      "qkv self-test\n  QKV_ISA=avx2 qkv self-test --json\n  qkv self-test model");
  struct Arguments {
    std::string model;
    Device device = Device::cpu;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  add_model_option(*command, "model", arguments->model,
                   "Model folder to check, or name (default: this machine)");
  add_device_option(*command, arguments->device);
  command->add_flag("--json", arguments->json, "Print one JSON object");
  add_threads_option(*command);
  command->callback([arguments] {
    arguments->model.empty() ? self_test(arguments->device, arguments->json)
                             : self_test_folder(arguments->model, arguments->device, arguments->json);
  });
}

}  // namespace qkv::apps
