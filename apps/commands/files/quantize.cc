// qkv quantize

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "apps/cli/messages.h"
#include "apps/command.h"
#include "apps/terminal.h"
#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/hub/copies.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/ops/quantize.h"
#include "qkv/pipelines/proof/proof.h"

namespace qkv::apps {

namespace {

struct QuantizeArguments {
  std::string model, out;
  std::optional<DType> dtype;
};

// One file, or shards.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& path : files_in(folder)) {
    const std::string name = path.filename().string();
    if (name.starts_with("model") && name.ends_with(".safetensors")) files.push_back(path);
  }
  return files;
}

int64_t weight_bytes(const std::filesystem::path& folder) {
  int64_t bytes = 0;
  for (const std::filesystem::path& path : weight_files(folder))
    bytes += static_cast<int64_t>(std::filesystem::file_size(path));
  return bytes;
}

bool holds_rounded_weights(const std::filesystem::path& folder) {
  return std::ranges::any_of(weight_files(folder), [](const std::filesystem::path& path) {
    const io::SafetensorsFile file(path);
    return std::ranges::any_of(file.names(), [&](const std::string& name) {
      return file.dtype(name) == "BF16" || file.dtype(name) == "I8";
    });
  });
}

void quantize(const QuantizeArguments& arguments) {
  models::refuse_gguf(arguments.model, "model");
  const int64_t before = weight_bytes(arguments.model);
  const bool rounded = holds_rounded_weights(arguments.model);
  int64_t after = 0;
  bool proved = false;
  // Inside, so that an error leaves no folder that a second attempt would reject.
  const auto finish = [&](const std::filesystem::path& folder) {
    proved = pipelines::write_proof(folder);
    after = weight_bytes(folder);
  };
  models::quantize_folder(arguments.model, arguments.out, *arguments.dtype, finish);
  say(concat(arguments.out, ": weights in ", weight_dtype_name(*arguments.dtype), ", ", bytes_text(after),
             " (", bytes_text(before), " in ", arguments.model, ")"));
  if (!proved)
    say(concat("no ", pipelines::kProofFile,
               ": the folder has no tokenizer or preprocessing to run the model with"));
  if (after <= before) return;
  say(concat("the copy is larger than the original",
             rounded ? ", but no more precise, because the original's weights were already rounded" : ""));
}

}  // namespace

void add_quantize(Command& app) {
  Command* command = add_command(
      app, "quantize",
      "Write a copy of a model folder with smaller weights: bf16 or f16 (half of f32) or int8 (a quarter,\n"
      "with a scale for each output). They take less memory and time to read. 16-bit folders also open in\n"
      "transformers; an int8 folder is qkv's own. Training may start from each (--from), from the\n"
      "rounded weights; the original is a better start. Measure the loss of quality with qkv evaluate.",
      "qkv quantize model --dtype int8 --out model-int8 && qkv translate model-int8 < test.en");
  const auto arguments = std::make_shared<QuantizeArguments>();
  add_option(*command, "model", arguments->model, "DIR", "Model folder")->required();
  add_choice(*command, "--dtype", arguments->dtype,
             {{"bf16", DType::bf16}, {"f16", DType::f16}, {"int8", DType::i8}},
             "Dtype of the weights to write")
      ->required();
  add_option(*command, "--out", arguments->out, "DIR", "New folder: empty or nonexistent")->required();
  add_threads_option(*command);
  command->callback([arguments] { quantize(*arguments); });
}

}  // namespace qkv::apps
