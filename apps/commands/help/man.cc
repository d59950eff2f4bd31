// qkv man

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/man_page.h"
#include "apps/command.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"

namespace qkv::apps {
namespace {

struct ManArguments {
  std::vector<std::string> words;
  std::optional<std::filesystem::path> out;
};

void man(const Command& app, const ManArguments& arguments) {
  const std::vector<DeclaredCommand> commands = declared_commands(app.app());
  if (arguments.out) {
    std::filesystem::create_directories(*arguments.out);
    for (const DeclaredCommand& command : commands) {
      const ManPage page = man_page(commands, command, QKV_VERSION);
      write_file_atomically(*arguments.out / page.file, page.text);
    }
    return;
  }
  std::string name = commands.front().name;
  for (const std::string& word : arguments.words) name += " " + word;
  const auto command = std::ranges::find(commands, name, &DeclaredCommand::name);
  if (command == commands.end())
    throw UsageError(concat("man: expected a command of qkv, found '", join(arguments.words, " "),
                            "'; 'qkv help' lists them"));
  std::cout << man_page(commands, *command, QKV_VERSION).text;
}

}  // namespace

void add_man(Command& app) {
  Command* command = add_command(app, "man", "Print a manual page: of qkv, or of a command.",
                                 "qkv man | man -l -\n  qkv man train translation | man -l -");
  const auto arguments = std::make_shared<ManArguments>();
  Option* words = add_option(*command, "command", arguments->words, "COMMAND",
                             "Command, with its subcommand (default: qkv itself)");
  add_option(*command, "--out", arguments->out, "DIR",
             "Write the pages of all commands to this folder (default: print one)")
      ->excludes(words);
  command->callback([arguments, &app] { man(app, *arguments); });
}

}  // namespace qkv::apps
