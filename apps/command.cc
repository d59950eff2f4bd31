#include "apps/command.h"

#include <cctype>

#include "qkv/base/parallel.h"

namespace qkv::apps {

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& example) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer("\nExample:\n  " + example);
  return command;
}

std::vector<std::string> choices_of(const std::string& type) {
  if (type.find('|') == std::string::npos ||
      std::ranges::any_of(type, [](unsigned char c) { return std::isupper(c) != 0; })) {
    return {};
  }
  return CLI::detail::split(type, '|');
}

void add_threads_option(CLI::App& command) {
  command
      .add_option_function<int>(
          "--threads", [](const int& count) { set_threads(count); },
          "Threads to use; results do not depend on it (default: all cores)")
      ->type_name("N")
      ->check([](const std::string& text) { return option::number_error<int>(text); });
}

}  // namespace qkv::apps
