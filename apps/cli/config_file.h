#pragma once
// --config: the options of a command from a TOML file.

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace qkv::apps {

// Declares --config for the program and for each command that has options. Call it after all commands are
// declared.
void add_config_option(CLI::App& program);

// CLI11 reads one file, the program's, so --config is moved to the front.
std::vector<std::string> with_config_first(std::vector<std::string> arguments);

}  // namespace qkv::apps
