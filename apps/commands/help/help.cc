// qkv help

#include <memory>
#include <string>
#include <vector>

#include "apps/command.h"

namespace qkv::apps {

// parse_and_run() runs `qkv help COMMAND` as `qkv COMMAND --help`.
void add_help(Command& app) {
  Command* command =
      add_command(app, "help", "Explain a command, or list all.", "qkv help train translation");
  const auto words = std::make_shared<std::vector<std::string>>();
  add_option(*command, "command", *words, "COMMAND", "Command, with its subcommand (default: qkv itself)");
  command->callback([words] {});
}

}  // namespace qkv::apps
