// qkv quantize

#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/command.h"
#include "apps/terminal.h"
#include "qkv/models/hub/quantize.h"

namespace qkv::apps {

void add_weights_option(CLI::App& command, std::optional<WeightForm>& form) {
  command
      .add_option_function<std::string>(
          "--weights", [&form](const std::string& name) { form = weight_form(name); },
          "Keep weights in this form (default: the folder's). bf16 takes half the memory of f32,\n"
          "int8 a quarter; all else is computed in f32")
      ->check(CLI::IsMember(weight_form_names()))
      ->option_text("f32|bf16|int8");
}

namespace {

struct Arguments {
  std::string model, form, out;
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
  models::quantize_folder(arguments.model, arguments.out, weight_form(arguments.form));
  std::cerr << arguments.out << ": weights in " << arguments.form << ", "
            << bytes_text(weight_bytes(arguments.out)) << " (" << bytes_text(weight_bytes(arguments.model))
            << " in " << arguments.model << ")\n";
}

}  // namespace

void add_quantize(CLI::App& app) {
  CLI::App* command =
      add_command(app, "quantize",
                  "Write a model folder anew with smaller weights, which are read in less time and memory: "
                  "bf16 (half of\n"
                  "f32) or int8 (a quarter, with a scale for each output). A bf16 folder opens in "
                  "transformers too; an int8\n"
                  "folder is qkv's own. Neither can be trained further. Measure what it costs: qkv evaluate.",
                  "qkv quantize model --weights int8 --out model-int8 && qkv translate model-int8 < test.en");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("model", arguments->model, "Model folder")->required()->type_name("DIR");
  command->add_option("--weights", arguments->form, "The form to write")
      ->required()
      ->check(CLI::IsMember({"bf16", "int8"}))
      ->option_text("bf16|int8");
  command->add_option("--out", arguments->out, "The new folder, which must be empty or not there")
      ->required()
      ->type_name("DIR");
  add_threads_option(*command);
  command->callback([arguments] { quantize(*arguments); });
}

}  // namespace qkv::apps
