#pragma once
// The command line: one function for each subcommand, each in a file of its own (cmd_<name>.cc). A subcommand
// reads options, calls the library and prints; what a library user could want lives in the library.
//
// Results go to stdout, talk to stderr. Exit status: 0 done; 2 the command line is wrong (CLI11's errors,
// UsageError); 1 any other failure; 130 and 143 stopped by SIGINT and SIGTERM after saving.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/tensor/dtype.h"

namespace qkv::apps {

void add_train(CLI::App& app);
void add_translate(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_bleu(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_inspect(CLI::App& app);
void add_quantize(CLI::App& app);
void add_attention(CLI::App& app);
void add_bench(CLI::App& app);
void add_demo(CLI::App& app);
void add_generate(CLI::App& app);
void add_score(CLI::App& app);
void add_fill_mask(CLI::App& app);
void add_classify(CLI::App& app);
void add_tag(CLI::App& app);
void add_embed(CLI::App& app);
void add_shortlist(CLI::App& app);
void add_self_test(CLI::App& app);

// A subcommand whose --help ends with an example.
inline CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                             const std::string& example) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer("\nExample:\n  " + example);
  return command;
}

// An option that takes one of some names and puts what it stands for into `value`, which has to live as long
// as the command.
template <class Value, class Choice>
CLI::Option* add_choice(CLI::App& command, const std::string& option, Value& value,
                        const std::vector<std::pair<std::string, Choice>>& choices,
                        const std::string& description) {
  std::vector<std::string> names;
  for (const auto& [name, choice] : choices) names.push_back(name);
  const auto take = [&value, choices](const std::string& chosen) {
    for (const auto& [name, choice] : choices) {
      if (name == chosen) value = choice;
    }
  };
  return command.add_option_function<std::string>(option, take, description)
      ->check(CLI::IsMember(names))
      ->option_text(CLI::detail::join(names, "|"));
}

// --dtype: of a model's weight matrices.
void add_dtype_option(CLI::App& command, std::optional<DType>& dtype);

// --threads, checked and put to use when it is given.
void add_threads_option(CLI::App& command);

// Whether stderr is a terminal: only then is progress drawn in place.
bool stderr_is_terminal();

// A callback ends with another exit status than 0 by throwing this.
struct ExitStatus {
  int value = 0;
};

}  // namespace qkv::apps
