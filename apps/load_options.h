#pragma once
// Options for opening a model.

#include "apps/command.h"
#include "qkv/models/hub/load_options.h"

namespace qkv::apps {

// An option or argument with a model's folder, or its name of the hub, which is replaced by its folder in the
// cache before the command runs (hub::model_folder).
Option* add_model_option(Command& command, const std::string& name, std::string& model,
                         const std::string& help, const std::string& type = "DIR");

// What a command opens. GGUF files have language models and encoders of texts.
enum class ModelPath : uint8_t { folder, folder_or_gguf };

// The argument "model", required. `whose`: "with a chat template".
Option* add_model_argument(Command& command, std::string& model, ModelPath path,
                           const std::string& whose = "");

// --dtype, --device and --adapter of a command that runs a model. `load` must live as long as the command; so
// must the variables below.
void add_load_options(Command& command, models::LoadOptions& load);
void add_dtype_option(Command& command, std::optional<DType>& dtype);
void add_device_option(Command& command, Device& device);

}  // namespace qkv::apps
