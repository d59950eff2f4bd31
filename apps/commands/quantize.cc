// qkv quantize

#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/command.h"
#include "apps/terminal.h"
#include "qkv/models/hub/quantize.h"
#include "qkv/ops/quantize.h"

namespace qkv::apps {

void add_dtype_option(CLI::App& command, std::optional<DType>& dtype) {
  command
      .add_option_function<std::string>(
          "--dtype", [&dtype](const std::string& name) { dtype = weight_dtype_from_name(name); },
          "Dtype of the weight matrices (default: the folder's). bf16 takes half the memory of f32,\n"
          "int8 a quarter; everything else is computed in f32")
      ->check(CLI::IsMember(weight_dtype_names()))
      ->option_text("f32|bf16|int8");
}

namespace {

struct Arguments {
  std::string model, dtype, out;
};

// One file, or shards.
int64_t weight_bytes(const std::string& folder) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("model") && name.ends_with(".safetensors")) {
      bytes += static_cast<int64_t>(entry.file_size());
    }
  }
  return bytes;
}

void quantize(const Arguments& arguments) {
  models::quantize_folder(arguments.model, arguments.out, weight_dtype_from_name(arguments.dtype));
  const int64_t before = weight_bytes(arguments.model), after = weight_bytes(arguments.out);
  std::cerr << arguments.out << ": weights in " << arguments.dtype << ", " << bytes_text(after) << " ("
            << bytes_text(before) << " in " << arguments.model << ")\n";
  if (after > before)
    std::cerr << "The copy is larger and no more exact: the values had been rounded before.\n";
}

}  // namespace

void add_quantize(CLI::App& app) {
  CLI::App* command = add_command(
      app, "quantize",
      "Write a copy of a model folder with smaller weights, which take less memory and time to "
      "read: bf16 (half\n"
      "of f32) or int8 (a quarter, with a scale for each output). A bf16 folder also opens in "
      "transformers; an\n"
      "int8 folder is qkv's own. Neither can be trained further. Measure the loss of quality with "
      "qkv evaluate.",
      "qkv quantize model --dtype int8 --out model-int8 && qkv translate model-int8 < test.en");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("model", arguments->model, "Model folder")->required()->type_name("DIR");
  command->add_option("--dtype", arguments->dtype, "Dtype of the weights to write")
      ->required()
      ->check(CLI::IsMember({"bf16", "int8"}))
      ->option_text("bf16|int8");
  command->add_option("--out", arguments->out, "The new folder: empty, or not there yet")
      ->required()
      ->type_name("DIR");
  add_threads_option(*command);
  command->callback([arguments] { quantize(*arguments); });
}

}  // namespace qkv::apps
