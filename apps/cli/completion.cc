#include "apps/cli/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <sstream>

#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

std::string last_word(const DeclaredCommand& command) {
  return command.name.substr(command.name.rfind(' ') + 1);
}

std::string joined(const std::vector<std::string>& words, const char* separator) {
  return CLI::detail::join(words, separator);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return CLI::detail::find_and_replace(std::move(text), from, to);
}

std::string in_single_quotes(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

// A command's name as a shell function name.
std::string function_of(const std::string& command) {
  std::string name = "_" + command;
  std::ranges::replace(name, ' ', '_');
  std::ranges::replace(name, '-', '_');
  return name;
}

// The first sentence of the help, for a list of options.
std::string short_help(const DeclaredOption& option) {
  const std::string help = first_sentence(option.help);
  return help.substr(0, help.find(" (default"));
}

constexpr const char* kBashHead = R"(# bash completion of qkv, made by 'qkv completion bash'.
_qkv() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=qkv words i
  if [[ $cur == "=" ]]; then # --option=
    cur=""
  elif [[ $prev == "=" ]]; then # --option=value
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
)";
constexpr const char* kBashTail = R"(  esac
  if [[ -z $words ]]; then
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  fi
}
complete -F _qkv qkv
)";

// The completion code for an option's value.
std::string bash_values(const DeclaredOption& option) {
  if (!option.choices.empty())
    return concat("mapfile -t COMPREPLY < <(compgen -W \"", joined(option.choices, " "), "\" -- \"$cur\")");
  if (!option.takes_files() && !option.takes_folders()) return "";
  return concat("compopt -o filenames 2> /dev/null; mapfile -t COMPREPLY < <(compgen ",
                option.takes_files() ? "-f" : "-d", " -- \"$cur\")");
}

std::string zsh_values(const DeclaredOption& option) {
  if (!option.choices.empty()) return concat("(", joined(option.choices, " "), ")");
  return option.takes_files() ? "_files" : option.takes_folders() ? "_files -/" : "";
}

// Brackets and colons are special in a specification of _arguments.
std::string zsh_text(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"}) text = replaced(text, special, concat("\\", special));
  return text;
}

void write_zsh_option(std::ostream& out, const DeclaredOption& option) {
  if (option.is_argument()) {
    out << " \\\n    "
        << in_single_quotes(concat(option.repeated ? "*" : "", ":", zsh_text(option.names.front()), ":",
                                   zsh_values(option)));
    return;
  }
  for (const std::string& name : option.names) {
    const bool flag = option.type.empty();
    out << " \\\n    "
        << in_single_quotes(concat(option.repeated ? "*" : "", name,
                                   flag                     ? ""
                                   : name.starts_with("--") ? "="
                                                            : "+",
                                   "[", zsh_text(short_help(option)), "]",
                                   flag ? "" : concat(":", zsh_text(option.type), ":", zsh_values(option))));
  }
}

}  // namespace

std::string bash_completion(const std::vector<DeclaredCommand>& commands) {
  std::ostringstream out;
  out << kBashHead;
  for (size_t i = 1; i < commands.size(); ++i)
    out << (i == 1 ? "      " : " | \\\n      ") << '"' << commands[i].name << '"';
  out << ")\n        command=\"$command ${COMP_WORDS[i]}\" ;;\n    esac\n  done\n  case \"$command $prev\" "
         "in\n";
  for (const DeclaredCommand& command : commands) {
    for (const DeclaredOption& option : command.options) {
      if (option.is_argument() || option.type.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names)
        patterns.push_back(concat('"', command.name, " ", name, '"'));
      const std::string values = bash_values(option);
      out << "    " << joined(patterns, " | ") << ")\n      " << values << (values.empty() ? "" : "\n      ")
          << "return ;;\n";
    }
  }
  out << "  esac\n  case \"$command\" in\n";
  for (const DeclaredCommand& command : commands) {
    std::vector<std::string> options, names;
    for (const DeclaredOption& option : command.options) {
      if (!option.is_argument()) options.insert(options.end(), option.names.begin(), option.names.end());
    }
    for (const DeclaredCommand* one : subcommands_of(commands, command.name))
      names.push_back(last_word(*one));
    for (const DeclaredOption& option : command.options) {
      if (option.is_argument()) names.insert(names.end(), option.choices.begin(), option.choices.end());
    }
    // A word that begins with a dash is an option; otherwise subcommands come first.
    out << "    \"" << command.name << "\")\n      words=\"" << joined(names, " ")
        << "\"\n      [[ $cur == -* ]] && words=\"" << joined(options, " ") << "\" ;;\n";
  }
  out << kBashTail;
  return out.str();
}

std::string zsh_completion(const std::vector<DeclaredCommand>& commands) {
  std::ostringstream out;
  out << "#compdef qkv\n# zsh completion of qkv, made by 'qkv completion zsh'.\n";
  for (const DeclaredCommand& command : commands) {
    const std::vector<const DeclaredCommand*> inner = subcommands_of(commands, command.name);
    out << function_of(command.name) << "() {\n";
    if (!inner.empty()) out << "  local state line\n";
    out << "  _arguments " << (inner.empty() ? "" : "-C ") << "-S";
    for (const DeclaredOption& option : command.options) write_zsh_option(out, option);
    if (inner.empty()) {
      out << "\n}\n";
      continue;
    }
    out << " \\\n    '1: :->command' \\\n    '*:: :->rest'\n  case $state in\n    command)\n      local -a "
           "names=(";
    for (const DeclaredCommand* one : inner)
      out << "\n        "
          << in_single_quotes(concat(last_word(*one), ":", replaced(one->summary, ":", "\\:")));
    out << ")\n      _describe command names ;;\n    rest)\n      case $words[1] in\n";
    for (const DeclaredCommand* one : inner)
      out << "        " << last_word(*one) << ") " << function_of(one->name) << " ;;\n";
    out << "      esac ;;\n  esac\n}\n";
  }
  out << "if [[ $funcstack[1] == _qkv ]]; then\n  _qkv \"$@\"\nelse\n  compdef _qkv qkv\nfi\n";
  return out.str();
}

std::string fish_completion(const std::vector<DeclaredCommand>& commands) {
  std::ostringstream out;
  out << "# fish completion of qkv, made by 'qkv completion fish'.\nfunction __qkv_command\n  set -l command "
         "qkv\n"
         "  for word in (commandline -opc)[2..-1]\n    switch \"$command $word\"\n      case";
  for (size_t i = 1; i < commands.size(); ++i) out << " \\\n        " << in_single_quotes(commands[i].name);
  out << "\n        set command \"$command $word\"\n    end\n  end\n  echo $command\nend\n";
  for (const DeclaredCommand& command : commands) {
    const std::string condition =
        concat("complete -c qkv -n \"test (__qkv_command) = '", command.name, "'\"");
    for (const DeclaredCommand* one : subcommands_of(commands, command.name))
      out << condition << " -f -a " << last_word(*one) << " -d " << in_single_quotes(one->summary) << '\n';
    for (const DeclaredOption& option : command.options) {
      if (option.is_argument()) {
        if (!option.choices.empty())
          out << condition << " -f -a " << in_single_quotes(joined(option.choices, " ")) << '\n';
        continue;
      }
      out << condition;
      for (const std::string& name : option.names)
        out << (name.starts_with("--") ? " -l " : " -s ") << name.substr(name.starts_with("--") ? 2 : 1);
      if (!option.choices.empty()) {
        out << " -x -a " << in_single_quotes(joined(option.choices, " "));
      } else if (!option.type.empty()) {
        out << (option.takes_files()     ? " -r -F"
                : option.takes_folders() ? " -x -a '(__fish_complete_directories)'"
                                         : " -x");
      }
      out << " -d " << in_single_quotes(short_help(option)) << '\n';
    }
  }
  return out.str();
}

}  // namespace qkv::apps
