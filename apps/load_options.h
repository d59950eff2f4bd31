#pragma once
// Options for opening a model.

#include "apps/command.h"
#include "qkv/models/hub/load_options.h"

namespace qkv::apps {

// --dtype and --device. The variables must live as long as the command.
void add_dtype_option(Command& command, std::optional<DType>& dtype);
void add_device_option(Command& command, Device& device);

}  // namespace qkv::apps
