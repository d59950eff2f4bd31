#include "apps/load_options.h"

#include "apps/cli/field_options.h"
#include "qkv/hub/cache.h"
#include "qkv/ops/quantize.h"

namespace qkv::apps {

Option* add_model_option(Command& command, const std::string& name, std::string& model,
                         const std::string& help, const std::string& type) {
  command.before_run([&model] {
    if (!model.empty()) model = hub::model_folder(model);
  });
  return add_option(command, name, model, type, help);
}

Option* add_model_argument(Command& command, std::string& model, ModelPath path, const std::string& whose) {
  const bool gguf = path == ModelPath::folder_or_gguf;
  return add_model_option(
             command, "model", model,
             concat(gguf ? "Model folder, GGUF file" : "Model folder",
                    ", or the name of a model that qkv pull downloaded", whose.empty() ? "" : ", ", whose),
             gguf ? "DIR|FILE.gguf" : "DIR")
      ->required();
}

void add_dtype_option(Command& command, std::optional<DType>& dtype) {
  Choices<DType> choices;
  for (const std::string& name : weight_dtype_names())
    choices.emplace_back(name, weight_dtype_from_name(name));
  add_choice(
      command, "--dtype", dtype, choices,
      "Dtype of the weight matrices (default: the folder's). bf16 and f16 take half the memory of\n"
      "f32, int8 (a scale a row) and q8_0 (a scale for 32 numbers) a quarter, q4_0 and q4_k a seventh;\n"
      "everything else is computed in f32 (see --activations)");
}

void add_load_options(Command& command, models::LoadOptions& load) {
  add_dtype_option(command, load.dtype);
  add_device_option(command, load.device);
  add_choice(command, "--activations", load.activations, {{"f32", DType::f32}, {"bf16", DType::bf16}},
             "Dtype of activations on a device other than cpu; bf16 takes half the memory and changes last\n"
             "digits");
  add_option(command, "--adapter", load.adapter, "DIR",
             "LoRA adapter of the model: a folder that qkv train or PEFT wrote (default: none)");
  command.before_run([&load] {
    if (load.activations != DType::f32 && load.device == Device::cpu)
      option::reject("--activations",
                     "expected f32 on the CPU, which --device auto takes without a GPU, found bf16");
    if (!load.adapter.empty()) load.adapter = hub::model_folder(load.adapter.string());
  });
}

void add_device_option(Command& command, Device& device) {
  const auto take = [&device](const std::string& text) {
    try {
      device = device_named(text);
    } catch (const UsageError& error) {
      option::reject("--device", error.what());
    }
  };
  command.add_text("--device", take, wrapped(kDeviceHelp))
      ->type_name(kDeviceNames)
      ->default_str(name_of(device));
}

}  // namespace qkv::apps
