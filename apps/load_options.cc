#include "apps/load_options.h"

#include "qkv/ops/quantize.h"

namespace qkv::apps {

void add_model_argument(Command& command, std::string& model, ModelPath path, const std::string& whose) {
  const bool gguf = path == ModelPath::folder_or_gguf;
  add_option(command, "model", model, gguf ? "DIR|FILE.gguf" : "DIR",
             concat(gguf ? "Model folder, or a GGUF file" : "Model folder", whose.empty() ? "" : " ", whose))
      ->required();
}

void add_dtype_option(Command& command, std::optional<DType>& dtype) {
  Choices<DType> choices;
  for (const DType one : kWeightDTypes) choices.emplace_back(weight_dtype_name(one), one);
  add_choice(command, "--dtype", dtype, choices,
             "Dtype of the weight matrices (default: the folder's). bf16 and f16 take half the memory of\n"
             "f32, int8 a quarter; everything else is computed in f32");
}

void add_load_options(Command& command, models::LoadOptions& load) {
  add_dtype_option(command, load.dtype);
  add_device_option(command, load.device);
  add_option(command, "--adapter", load.adapter, "DIR",
             "LoRA adapter of the model: a folder that qkv train or PEFT wrote (default: none)");
}

void add_device_option(Command& command, Device& device) {
  Choices<Device> choices;
  for (const Device one : kDevices) choices.emplace_back(name_of(one), one);
  add_choice(command, "--device", device, choices,
             "Where to compute; reference: plain loops in double precision, slow, for checking numbers");
}

}  // namespace qkv::apps
