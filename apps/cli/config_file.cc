#include "apps/cli/config_file.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "apps/cli/messages.h"
#include "apps/cli/suggest.h"
#include "apps/cli/toml.h"
#include "apps/command.h"
#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

constexpr const char* kOption = "--config";

const CLI::App* subcommand_of(const CLI::App& app, const std::string& name) {
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; }))
    if (one->get_name() == name) return one;
  return nullptr;
}

// An option's key is its long name without dashes; an argument's is its name.
std::string key_of(const CLI::Option& option) {
  const std::string name = option.get_name();
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

// The file's entries for the running command. Keys outside tables are that command's; a table's keys belong
// to the command it names, so that one file may serve several.
class ConfigFile : public CLI::Config {
 public:
  explicit ConfigFile(const CLI::App& program) : program_(program) {}

  std::string to_config(const CLI::App* /*app*/, bool /*defaults*/, bool /*descriptions*/,
                        std::string /*prefix*/) const override {
    return {};
  }

  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    const std::string path = program_.get_option(kOption)->as<std::string>();
    std::vector<std::string> running;
    for (const CLI::App* app = &innermost(program_); app != &program_; app = app->get_parent())
      running.insert(running.begin(), app->get_name());
    std::vector<CLI::ConfigItem> found;
    for (TomlEntry& entry : read_toml(in, path)) {
      const std::vector<std::string>& table = entry.table.empty() ? running : entry.table;
      const std::string key = require_known(table, entry, path);
      if (table == running)
        found.push_back({.parents = table, .name = key, .inputs = std::move(entry.values)});
    }
    return found;
  }

 private:
  // The option's name in the command. Throws UsageError.
  std::string require_known(const std::vector<std::string>& table, const TomlEntry& entry,
                            const std::string& path) const {
    const CLI::App* command = &program_;
    for (const std::string& name : table) {
      const CLI::App* next = subcommand_of(*command, name);
      if (next == nullptr) {
        std::vector<std::string> names;
        for (const CLI::App* one : command->get_subcommands([](const CLI::App*) { return true; }))
          names.push_back(one->get_name());
        throw UsageError(concat(path, ":", entry.line, ": expected a command of ", full_name(*command),
                                ", found [", name, "]", suggestion(name, names)));
      }
      command = next;
    }
    std::string key = entry.key;
    std::ranges::replace(key, '_', '-');
    std::vector<std::string> keys;
    for (const CLI::Option* option : command->get_options()) {
      if (!option->get_configurable()) continue;
      keys.push_back(key_of(*option));
      if (keys.back() == key || keys.back() == entry.key) return keys.back();
    }
    throw UsageError(concat(path, ":", entry.line, ": expected an option of ", full_name(*command),
                            ", found '", entry.key, "'", suggestion(key, keys)));
  }

  const CLI::App& program_;
};

void add_to_commands(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    add_to_commands(*command);
    if (command->get_options().size() > 1) {  // more than --help
      command
          ->add_option(kOption,
                       "Options of this command from a TOML file, such as beam = 4 for --beam 4; the\n"
                       "command line wins (default: none)")
          ->type_name("FILE")
          ->check(option::not_empty("FILE"))
          ->configurable(false);
    }
  }
}

}  // namespace

void add_config_option(CLI::App& program) {
  add_to_commands(program);
  program.set_config(kOption, "", "Options of the command from a TOML file (default: none)")
      ->type_name("FILE")
      ->check(option::not_empty("FILE"));
  program.config_formatter(std::make_shared<ConfigFile>(program));
}

std::vector<std::string> with_config_first(std::vector<std::string> arguments) {
  const auto end = std::ranges::find(arguments, "--");
  const auto found = std::find_if(arguments.begin(), end, [](const std::string& argument) {
    return argument == kOption || argument.starts_with(concat(kOption, "="));
  });
  if (found == end || (*found == kOption && found + 1 == end)) return arguments;
  const auto behind = *found == kOption ? found + 2 : found + 1;
  std::rotate(arguments.begin(), found, behind);
  return arguments;
}

}  // namespace qkv::apps
