#include "apps/cli/declarations.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/cli/messages.h"
#include "apps/command.h"

namespace qkv::apps {
namespace {

DeclaredOption declared(const CLI::Option& option) {
  DeclaredOption result;
  for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
  if (option.get_positional()) result.names = {option.get_name(true, false)};
  if (option.get_type_size() != 0) {
    result.type = option.get_type_name();
    result.default_text = option.get_default_str();
  }
  result.choices = choices_of(result.type);
  result.help = option.get_description();
  result.required = option.get_required();
  result.repeated = option.get_expected_max() == CLI::detail::expected_max_vector_size;
  return result;
}

// The footer is "Example:", indented lines, and remarks.
void read_footer(const std::string& footer, DeclaredCommand& command) {
  std::istringstream lines(footer);
  bool in_examples = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "Example:") {
      in_examples = true;
    } else if (in_examples && line.starts_with("  ")) {
      command.examples += line.substr(2) + "\n";
    } else {
      in_examples = false;
      if (!line.empty() || !command.remarks.empty()) command.remarks += line + "\n";
    }
  }
}

void add_declared(const CLI::App& app, std::vector<DeclaredCommand>& commands) {
  DeclaredCommand command{.name = full_name(app),
                          .heading = app.get_group(),
                          .summary = first_sentence(app.get_description()),
                          .description = app.get_description(),
                          .examples = {},
                          .remarks = {},
                          .options = {}};
  read_footer(app.get_footer(), command);
  for (const CLI::Option* option : app.get_options()) command.options.push_back(declared(*option));
  commands.push_back(std::move(command));
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; }))
    add_declared(*one, commands);
}

}  // namespace

std::vector<const DeclaredCommand*> subcommands_of(const std::vector<DeclaredCommand>& commands,
                                                   const std::string& name) {
  std::vector<const DeclaredCommand*> found;
  for (const DeclaredCommand& one : commands) {
    if (one.name.starts_with(name + " ") && one.name.find(' ', name.size() + 1) == std::string::npos)
      found.push_back(&one);
  }
  return found;
}

std::vector<DeclaredCommand> declared_commands(const CLI::App& program) {
  std::vector<DeclaredCommand> commands;
  add_declared(program, commands);
  return commands;
}

std::string first_sentence(const std::string& description) {
  std::string sentence = description;
  for (const char* stop : {". ", ".\n", ": ", "; "})
    sentence.resize(std::min(sentence.find(stop), sentence.size()));
  if (sentence.ends_with('.') || sentence.ends_with('\n')) sentence.pop_back();
  std::ranges::replace(sentence, '\n', ' ');
  return sentence;
}

}  // namespace qkv::apps
