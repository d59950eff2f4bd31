#pragma once
// The options and arguments of the command line and of --config.

#include <string>
#include <vector>

namespace qkv::apps {

struct GivenOption {
  std::string name, type;           // "--beam", "N"; of an argument "model", "DIR"
  std::vector<std::string> values;  // of a flag: "true"

  // Whether the values are paths of files or folders.
  bool is_path() const {
    return type.find("FILE") != std::string::npos || type.find("DIR") != std::string::npos;
  }
};

// "qkv translate".
std::string selected_command();

// Those of the selected command, in the order of --help.
std::vector<GivenOption> given_options();

}  // namespace qkv::apps
