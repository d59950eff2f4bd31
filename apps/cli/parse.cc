#include "apps/cli/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "apps/cli/config_file.h"
#include "apps/cli/messages.h"
#include "apps/cli/suggest.h"
#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

constexpr int kUsage = 2;

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_fnames()) names.push_back("--" + name);
  }
  return names;
}

// The first unknown word; empty: none.
std::string message_of_unknown(const CLI::App& command) {
  for (const std::string& word : command.remaining()) {
    const std::vector<std::string> commands = command_names(command);
    if (word.size() > 1 && word.starts_with("-")) {
      const std::string name = word.substr(0, word.find('='));
      return concat("expected an option of ", full_name(command), ", found ", name,
                    suggestion(name, option_names(command)));
    }
    if (!commands.empty()) {
      const std::string meant = suggestion(word, commands);
      return concat("expected a command of ", full_name(command), ", found '", word, "'",
                    meant.empty() ? concat("; '", full_name(command), " --help' lists them") : meant);
    }
    return concat("expected no further argument, found '", word, "'");
  }
  return {};
}

// "--src FILE", or an argument's name.
std::string written(const CLI::Option& option) {
  const std::string name = option.get_name();
  return name.starts_with("-") && option.get_type_size() != 0 ? concat(name, " ", option.get_type_name())
                                                              : name;
}

// The first missing required option or command.
std::string message_of_missing(const CLI::App& command, const std::string& otherwise) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_required() && option->count() == 0)
      return concat("expected ", written(*option), ", found none");
  }
  if (!command_names(command).empty())
    return concat("expected a command, found none; '", full_name(command), " --help' lists them");
  return otherwise;
}

std::string message_of(const CLI::App& command, const CLI::ParseError& error) {
  std::string what = error.what();
  std::string unknown = message_of_unknown(command);
  if (!unknown.empty()) return unknown;
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return message_of_missing(command, what);
  if (dynamic_cast<const CLI::FileError*>(&error) != nullptr) return concat("--config: ", what);
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (!what.starts_with(name + " ") && !what.starts_with(name + ":")) continue;
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
      return option->count() > 1
                 ? concat(name, ": expected once, found ", option->count(), " times")
                 : concat(name, ": expected ", option->get_type_name(), " after it, found none");
    }
    const std::string other = what.substr(what.rfind(' ') + 1);
    if (dynamic_cast<const CLI::RequiresError*>(&error) != nullptr)
      return concat(name, ": expected ", other, " beside it, found none");
    if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr)
      return concat(name, ": expected no ", other, " beside it, found both");
  }
  return what;
}

}  // namespace

int parse_and_run(CLI::App& program, int argc, char** argv) {
  set_program(program);
  if (argc <= 1) {
    std::cerr << program.help();
    return kUsage;
  }
  std::vector<std::string> arguments = with_config_first({argv + 1, argv + argc});
  std::ranges::reverse(arguments);  // CLI11 expects the arguments in reverse order
  try {
    program.parse(std::move(arguments));
  } catch (const CLI::Success& asked) {
    return program.exit(asked, std::cout, std::cerr);
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = innermost(program);
    throw UsageError(concat(message_of(command, error), "\nSee '", full_name(command), " --help'."));
  }
  return 0;
}

}  // namespace qkv::apps
