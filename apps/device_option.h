#pragma once
// --device: where a command's model computes.

#include "apps/command.h"
#include "qkv/tensor/device.h"

namespace qkv::apps {

// `device` has to live as long as the command.
void add_device_option(CLI::App& command, Device& device);

}  // namespace qkv::apps
