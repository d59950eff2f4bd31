// qkv man

#include <iostream>

#include "apps/cli/man_page.h"
#include "apps/command.h"

namespace qkv::apps {

void add_man(Command& app) {
  Command* command =
      add_command(app, "man", "Print the manual page with all commands and options.", "qkv man | man -l -");
  command->callback([&app] { std::cout << man_page(declared_commands(app.app()), QKV_VERSION); });
}

}  // namespace qkv::apps
