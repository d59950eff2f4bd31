// qkv completion

#include "apps/cli/completion.h"

#include <functional>
#include <iostream>
#include <memory>

#include "apps/command.h"

namespace qkv::apps {

using Completion = std::string (*)(const std::vector<DeclaredCommand>&);

void add_completion(Command& app) {
  Command* command = add_command(
      app, "completion", "Print a script that completes commands, options, values and files in a shell.",
      "source <(qkv completion bash)\n"
      "  qkv completion zsh > ~/.zfunc/_qkv\n"
      "  qkv completion fish > ~/.config/fish/completions/qkv.fish");
  const auto script = std::make_shared<Completion>();
  add_choice(*command, "shell", *script,
             {{"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}}, "Shell")
      ->required();
  command->callback([script, &app] { std::cout << (*script)(declared_commands(app.app())); });
}

}  // namespace qkv::apps
