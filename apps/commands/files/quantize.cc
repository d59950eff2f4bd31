// qkv quantize

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "apps/cli/messages.h"
#include "apps/load_options.h"
#include "apps/terminal.h"
#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/hub/copies.h"
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
      const std::string& dtype = file.dtype(name);
      return dtype == "BF16" || dtype == "I8" || dtype.find('_') != std::string::npos;  // "Q8_0"
    });
  });
}

void quantize(const QuantizeArguments& arguments) {
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
      "Write a copy of a model folder with smaller weights: bf16 or f16 (half of f32); blocks of 32 numbers\n"
      "with a scale each, q8_0 (a quarter) or q4_0 (a seventh; also called int4) and ggml's other formats;\n"
      "int8 (a quarter, with a scale for each output: fastest with many rows). They take less memory and\n"
      "time to read. 16-bit folders also open in transformers; the others are qkv's own. Training may start\n"
      "from each (--from), from the rounded weights; the original is a better start. Measure the loss of\n"
      "quality with qkv evaluate.",
      "qkv quantize model --dtype q8_0 --out model-q8_0 && qkv generate model-q8_0 --prompt 'Once'");
  const auto arguments = std::make_shared<QuantizeArguments>();
  add_model_argument(*command, arguments->model);
  Choices<DType> choices{{"int4", DType::q4_0}};
  for (const std::string& name : weight_dtype_names()) {
    if (name != "f32") choices.emplace_back(name, weight_dtype_from_name(name));
  }
  add_choice(*command, "--dtype", arguments->dtype, choices,
             "Dtype of the weights to write. A matrix whose rows do not divide into blocks (32 numbers,\n"
             "q4_k, q5_k and q6_k 256) becomes f16")
      ->required();
  add_option(*command, "--out", arguments->out, "DIR", "New folder: empty or nonexistent")->required();
  add_threads_option(*command);
  command->callback([arguments] { quantize(*arguments); });
}

}  // namespace qkv::apps
