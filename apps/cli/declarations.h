#pragma once
// The declared commands and options, from which completion scripts and the manual page are generated.

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace qkv::apps {

struct DeclaredOption {
  std::vector<std::string> names;    // "--beam", "-h"; of an argument only its name
  std::string type;                  // "N", "f32|bf16", ...; empty: a flag
  std::string default_text;          // empty: none is shown
  std::vector<std::string> choices;  // valid values; empty: any
  std::string help;
  bool required = false, repeated = false;

  bool is_argument() const { return !names.front().starts_with('-'); }
  bool takes_files() const { return type.find("FILE") != std::string::npos; }
  bool takes_folders() const { return type.find("DIR") != std::string::npos; }
};

struct DeclaredCommand {
  std::string name;     // "qkv train translation"
  std::string heading;  // in the list of its parent's commands
  std::string summary;  // first sentence of the description, without the full stop
  std::string description;
  std::string examples;  // unindented lines; empty: none
  std::string remarks;   // text after the examples
  std::vector<DeclaredOption> options;
};

// The direct subcommands of the command of that name.
std::vector<const DeclaredCommand*> subcommands_of(const std::vector<DeclaredCommand>& commands,
                                                   const std::string& name);

// The program, and each command before its subcommands, in the order of --help.
std::vector<DeclaredCommand> declared_commands(const CLI::App& program);

// The first sentence of a description, on one line, without the full stop.
std::string first_sentence(const std::string& description);

}  // namespace qkv::apps
