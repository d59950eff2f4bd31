#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

#include "apps/command.h"
#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/base/parallel.h"
#include "qkv/kernels/instruction_set.h"

namespace qkv::apps {

void add_threads_option(CLI::App& command) {
  command.add_option_function<int>(
      "--threads", [](const int& count) { set_threads(count); },
      "Threads to use (default: all cores); results do not depend on it");
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

}  // namespace qkv::apps

namespace {

constexpr int kFailed = 1, kUsage = 2;

// A list of commands says of each what stands before its description's first stop; the rest is for its own
// --help.
class OneLineEach : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* command) const override {
    std::string sentence = command->get_description();
    for (const char* stop : {". ", ".\n", ": ", "; "})
      sentence.resize(std::min(sentence.find(stop), sentence.size()));
    std::ranges::replace(sentence, '\n', ' ');
    std::stringstream out;
    CLI::detail::format_help(out, command->get_display_name(true), sentence, column_width_);
    return out.str();
  }
};

// The command that was asked for: `app`, or its subcommand's subcommand.
const CLI::App& innermost(const CLI::App& app) {
  const auto given = app.get_subcommands();
  return given.empty() ? app : innermost(*given.front());
}

// The edits (insert, delete or replace a character) between two words (Levenshtein 1966).
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row[b.size()];
}

[[noreturn]] void refuse_command(const CLI::App& app, const std::string& word) {
  std::string nearest;
  size_t least = 3;  // more edits are another word
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const size_t edits = edit_distance(word, command->get_name());
    if (edits < least) nearest = command->get_name();
    least = std::min(least, edits);
  }
  throw qkv::UsageError(qkv::concat(
      "expected a command, found '", word, "'",
      nearest.empty() ? "; 'qkv --help' lists them" : qkv::concat("; did you mean '", nearest, "'?")));
}

// What is misspelt leaves a required command or option missing. The message names what is misspelt.
[[noreturn]] void name_the_unknown_first(const CLI::App& app, const CLI::RequiredError& missing) {
  const CLI::App& command = innermost(app);
  for (const std::string& argument : command.remaining()) {
    if (argument.starts_with("-")) throw CLI::ExtrasError(command.get_name(), {argument});
    if (!command.get_subcommands([](const CLI::App*) { return true; }).empty()) {
      refuse_command(command, argument);
    }
  }
  throw missing;
}

// The library's message names a field ("max_new_tokens: expected ..."); where an option of that name was
// given, the command's message names the option.
std::string with_option_name(const CLI::App& command, const std::string& message) {
  const size_t colon = std::min(message.find(':'), message.size());
  std::string option = "--" + message.substr(0, colon);
  std::ranges::replace(option, '_', '-');
  const CLI::Option* given = command.get_option_no_throw(option);
  return given != nullptr && given->count() > 0 ? option + message.substr(colon) : message;
}

int parse(CLI::App& app, int argc, char** argv) {
  if (argc == 1) {
    std::cerr << app.help();
    return kUsage;
  }
  try {
    try {
      app.parse(argc, argv);
    } catch (const CLI::RequiredError& missing) {
      name_the_unknown_first(app, missing);
    } catch (const qkv::UsageError& error) {
      throw qkv::UsageError(with_option_name(innermost(app), error.what()));
    }
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : kUsage;
  }
}

int run(int argc, char** argv) {
  qkv::kernels::instruction_set();  // a wrong QKV_ISA fails, also where nothing is computed
  CLI::App app{"qkv: train, run and look into Transformers\n", "qkv"};
  app.set_version_flag("--version", "qkv " QKV_VERSION);
  app.require_subcommand(1);
  app.formatter(std::make_shared<OneLineEach>());  // before the commands, which inherit it
  app.footer(
      "\nExample:\n  qkv demo --out demo && echo 'forty-two' | qkv translate demo\n\n'qkv COMMAND --help' "
      "explains a command.");
  qkv::apps::add_train(app);
  qkv::apps::add_translate(app);
  qkv::apps::add_evaluate(app);
  qkv::apps::add_bleu(app);
  qkv::apps::add_tokenize(app);
  qkv::apps::add_inspect(app);
  qkv::apps::add_quantize(app);
  qkv::apps::add_attention(app);
  qkv::apps::add_bench(app);
  qkv::apps::add_demo(app);
  qkv::apps::add_generate(app);
  qkv::apps::add_score(app);
  qkv::apps::add_fill_mask(app);
  qkv::apps::add_classify(app);
  qkv::apps::add_tag(app);
  qkv::apps::add_embed(app);
  qkv::apps::add_shortlist(app);
  qkv::apps::add_self_test(app);
  if (const int status = parse(app, argc, argv); status != 0) return status;
  std::cout.flush();
  if (!std::cout) throw qkv::IoError("cannot write to stdout: is the disk full?");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  qkv::set_log_sink([](qkv::LogLevel level, const std::string& message) {
    std::cerr << "qkv: " << (level == qkv::LogLevel::warning ? "warning: " : "") << message << '\n';
  });
  try {
    return run(argc, argv);
  } catch (const qkv::apps::ExitStatus& status) {
    return status.value;
  } catch (const qkv::UsageError& error) {
    std::cerr << "qkv: " << error.what() << '\n';
    return kUsage;
  } catch (const std::bad_alloc&) {
    std::cerr << "qkv: out of memory\n";
    return kFailed;
  } catch (const std::exception& error) {
    std::cerr << "qkv: " << error.what() << '\n';
    return kFailed;
  }
}
