#include "apps/cli/given_options.h"

#include <CLI/CLI.hpp>

#include "apps/cli/messages.h"

namespace qkv::apps {

std::string selected_command() { return full_name(innermost(the_program())); }

std::vector<GivenOption> given_options() {
  std::vector<GivenOption> given;
  for (const CLI::Option* option : innermost(the_program()).get_options()) {
    if (option->count() > 0)
      given.push_back({option->get_name(), option->get_type_name(), option->results()});
  }
  return given;
}

}  // namespace qkv::apps
