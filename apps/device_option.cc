#include "apps/device_option.h"

#include <string>

#include "qkv/base/error.h"

namespace qkv::apps {

void add_device_option(CLI::App& command, Device& device) {
  std::string names, list;
  for (const Device one : kDevices) {
    names += concat(names.empty() ? "" : "|", name_of(one));
    list += concat(list.empty() ? "" : " or ", name_of(one));
  }
  const auto take = [&device, list](const std::string& name) {
    for (const Device one : kDevices) {
      if (name == name_of(one)) {
        device = one;
        return;
      }
    }
    throw CLI::ValidationError("--device", concat("expected ", list, ", found ", name));
  };
  command
      .add_option_function<std::string>(
          "--device", take,
          "Where to compute (default: cpu). reference computes in plain loops with\n"
          "double precision: slow, for checking numbers")
      ->option_text(names);
}

}  // namespace qkv::apps
