// qkv version

#include <iostream>

#include "apps/command.h"

namespace qkv::apps {

void add_version(Command& app) {
  Command* command = add_command(app, "version", "Print the version.", "qkv version");
  command->callback([] { std::cout << "qkv " QKV_VERSION "\n"; });
}

}  // namespace qkv::apps
