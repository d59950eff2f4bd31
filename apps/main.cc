#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <new>
#include <sstream>
#include <system_error>

#include "apps/cli/bus_error.h"
#include "apps/cli/config_file.h"
#include "apps/cli/declarations.h"
#include "apps/cli/messages.h"
#include "apps/cli/parse.h"
#include "apps/command.h"
#include "apps/commands.h"
#include "apps/line_results.h"
#include "apps/out_of_memory.h"
#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/kernels/instruction_set.h"

namespace qkv::apps {

#define QKV_NO_HEADING(NAME)
#define QKV_DECLARE(NAME) void add_##NAME(Command& app);
QKV_COMMANDS(QKV_NO_HEADING, QKV_DECLARE)
#undef QKV_NO_HEADING
#undef QKV_DECLARE

namespace {

constexpr int kFailed = 1, kUsage = 2;

// Lists commands with their first sentence; the rest is in their own --help.
class OneLineEach : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* command) const override {
    std::stringstream out;
    CLI::detail::format_help(out, command->get_display_name(true), first_sentence(command->get_description()),
                             column_width_);
    return out.str();
  }
  // Messages name the options that exclude others; among the names they would hide the descriptions.
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string all = CLI::Formatter::make_option_opts(option);
    return all.substr(0, std::min(all.find(" Needs:"), all.find(" Excludes:")));
  }
};

void declare(CLI::App& program, Command& commands) {
  program.set_version_flag("-V,--version", "qkv " QKV_VERSION);
  program.require_subcommand(1);
  program.formatter(std::make_shared<OneLineEach>());  // before the commands, which inherit it
  program.footer(
      "Example:\n  qkv demo --out demo && qkv translate demo 'forty-two'\n\n'qkv help COMMAND' "
      "explains a command.");
#define QKV_HEADING(NAME) commands.begin_heading(NAME);
#define QKV_ADD(NAME) add_##NAME(commands);
  QKV_COMMANDS(QKV_HEADING, QKV_ADD)
#undef QKV_HEADING
#undef QKV_ADD
  add_config_option(program);
}

// A file that is opened later would otherwise get the number of a closed standard stream, and its output.
// Reading from and writing to the replacement fails, as with a closed one.
void open_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

int fail(const std::string& message, int status = kFailed) {
  say(message);
  return status;
}

int run(CLI::App& program, Command& commands, int argc, char** argv) {
  try {
    kernels::instruction_set();  // an invalid QKV_ISA fails, even if nothing is computed
    declare(program, commands);
    const int status = parse_and_run(program, argc, argv);
    flush_stdout();
    return status;
  } catch (const ExitStatus& status) {
    return status.value;
  } catch (const UsageError& error) {
    return fail(error.what(), kUsage);
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(concat(error.path1().string(), ": ", error.code().message()));
  } catch (const std::system_error& error) {
    // The standard library only throws this for threads and locks.
    return fail(
        concat("a thread could not be started: ", error.code().message(), "; fewer --threads need less"));
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

}  // namespace
}  // namespace qkv::apps

int main(int argc, char** argv) {
  qkv::apps::open_closed_streams();
  qkv::apps::handle_out_of_memory();
  qkv::apps::explain_bus_errors();
  CLI::App program{"Train, run and look into Transformers.\n",
                   "qkv"};  // must outlive messages about its options
  qkv::apps::Command commands(program);
  qkv::set_log_sink([](qkv::LogLevel level, const std::string& message) {
    qkv::apps::say((level == qkv::LogLevel::warning ? "warning: " : "") + message);
  });
  return qkv::apps::returned(qkv::apps::run(program, commands, argc, argv));
}
