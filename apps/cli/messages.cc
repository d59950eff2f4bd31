#include "apps/cli/messages.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <iostream>

#include "apps/terminal.h"
#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

const CLI::App* set_app = nullptr;

bool in_word(const std::string& text, size_t at) {
  return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
}

}  // namespace

const CLI::App& innermost(const CLI::App& app) {
  const auto given = app.get_subcommands();
  return given.empty() ? app : innermost(*given.front());
}

std::string full_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? command.get_name()
                                         : concat(full_name(*command.get_parent()), " ", command.get_name());
}

std::string with_option_names(const CLI::App& command, const std::string& message) {
  std::string result = message;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || !name.starts_with("--")) continue;
    std::string field = name.substr(2);
    std::ranges::replace(field, '-', '_');
    const bool several_words = field.find('_') != std::string::npos;
    for (size_t at = 0; (at = result.find(field, at)) != std::string::npos;) {
      const size_t end = at + field.size();
      const bool whole =
          (at == 0 || (!in_word(result, at - 1) && result[at - 1] != '-' && result[at - 1] != '.')) &&
          !in_word(result, end);
      const bool first = at == 0 && end < result.size() && result[end] == ':';
      if (!whole || !(several_words || first)) {
        at = end;
        continue;
      }
      result.replace(at, field.size(), name);
      at += name.size();
    }
  }
  return result;
}

void set_program(const CLI::App& program) { set_app = &program; }

const CLI::App& the_program() { return *set_app; }

void say(const std::string& message) {
  const std::string line =
      concat("qkv: ", set_app == nullptr ? message : with_option_names(innermost(*set_app), message), "\n");
  std::fwrite(line.data(), 1, line.size(),
              stderr);  // std::cerr fails where memory ran out in sync_with_stdio()
}

void announce_stdin() {
  if (stdin_is_terminal()) say("reading from the terminal, Ctrl-D ends");
}

}  // namespace qkv::apps
