#include "apps/cli/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "apps/cli/config_file.h"
#include "apps/cli/messages.h"
#include "apps/cli/peer_names.h"
#include "apps/cli/suggest.h"
#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

constexpr int kUsage = 2;
constexpr const char* kHelp = "help";

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// And those of arguments; of a command that reads lines, also the redirections of the shell.
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) names.push_back(option->get_name());
    if (option->get_name() == "text") names.insert(names.end(), {kReadFile, kWriteFile});
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_fnames()) names.push_back("--" + name);
  }
  return names;
}

const CLI::App* command_named(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (command->get_name() == name) return command;
  return nullptr;
}

bool looks_like_option(const std::string& word) { return word.size() > 1 && word.starts_with("-"); }

std::string message_of_no_option(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const std::optional<std::string> meant = nearest(name, option_names(app));
  const bool argument = meant && std::isalpha(static_cast<unsigned char>(meant->front())) != 0;
  return concat("expected an option of ", full_name(app), ", found ", name,
                meant ? concat("; did you mean ", argument ? "the argument " : "", "'", *meant, "'?") : "");
}

std::string message_of_no_command(const CLI::App& app, const std::string& word) {
  const std::string meant = suggestion(word, command_names(app));
  return concat("expected a command of ", full_name(app), ", found '", word, "'",
                meant.empty() ? concat("; '", full_name(app), " --help' lists them") : meant);
}

// The first unknown word; empty: none.
std::string message_of_unknown(const CLI::App& command) {
  for (const std::string& word : command.remaining()) {
    if (looks_like_option(word)) return message_of_no_option(command, word);
    if (!command_names(command).empty()) return message_of_no_command(command, word);
    return concat("expected no further argument, found '", word, "'");
  }
  return {};
}

// "--src FILE", "the argument 'model' (DIR)", or "the argument FILE".
std::string written(const CLI::Option& option) {
  const std::string name = option.get_name(), type = option.get_type_name();
  if (!name.starts_with("-"))
    return name == type ? concat("the argument ", name) : concat("the argument '", name, "' (", type, ")");
  return option.get_type_size() != 0 ? concat(name, " ", type) : name;
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
  if (dynamic_cast<const CLI::FileError*>(&error) != nullptr) {
    const std::string file = what.substr(0, what.rfind(" was not"));
    std::error_code ignored;
    return std::filesystem::is_directory(file, ignored)
               ? concat("--config: expected a file, found the folder ", file)
               : concat("--config: ", what);
  }
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

UsageError usage_error(const CLI::App& command, const std::string& message) {
  const std::string help = concat("'", full_name(command), " --help'");
  return UsageError(message.find(help) == message.npos ? concat(message, "\nSee ", help, ".") : message);
}

// Throws UsageError if the word in a command's place is none, or an option before it. CLI11 would pass it by
// and take a later argument for the command ("demo" in `qkv translat demo`).
void require_commands(const CLI::App& program, const std::vector<std::string>& arguments) {
  const CLI::App* app = &program;
  for (size_t i = 0; i < arguments.size() && !command_names(*app).empty(); ++i) {
    const std::string& word = arguments[i];
    if (looks_like_option(word)) {
      const CLI::Option* option = app->get_option_no_throw(word.substr(0, word.find('=')));
      if (option == nullptr) throw usage_error(*app, message_of_no_option(*app, word));
      if (option == app->get_help_ptr() || option == app->get_version_ptr()) return;
      if (option->get_items_expected_max() != 0 && word.find('=') == word.npos) ++i;  // its value
      continue;
    }
    const CLI::App* command = command_named(*app, word);
    if (command == nullptr) throw usage_error(*app, message_of_no_command(*app, word));
    app = command;
  }
}

}  // namespace

int parse_and_run(CLI::App& program, int argc, char** argv) {
  set_program(program);
  if (argc <= 1) {
    std::cerr << program.help();
    return kUsage;
  }
  std::vector<std::string> arguments = with_config_first({argv + 1, argv + argc});
  if (arguments.front() == kHelp &&
      (arguments.size() == 1 || !looks_like_option(arguments[1]))) {  // "help train lm" is "train lm --help"
    std::rotate(arguments.begin(), arguments.begin() + 1, arguments.end());
    arguments.back() = "--help";
  }
  require_commands(program, arguments);
  std::ranges::reverse(arguments);  // CLI11 expects the arguments in reverse order
  try {
    program.parse(std::move(arguments));
  } catch (const CLI::Success& asked) {
    return program.exit(asked, std::cout, std::cerr);
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = innermost(program);
    throw usage_error(command, message_of(command, error));
  }
  return 0;
}

}  // namespace qkv::apps
