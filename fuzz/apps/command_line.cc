// Parses a command line, one argument per line, and after a zero byte the file of --config. The program has
// options of every kind that apps/command.h declares; it runs nothing.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <optional>
#include <sstream>

#include "apps/cli/config_file.h"
#include "apps/cli/parse.h"
#include "apps/command.h"
#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/base/parallel.h"

namespace qkv::fuzz {
namespace {

enum class Dtype : uint8_t { f32, bf16 };

struct Values {
  std::string folder, out = "report.html";
  int beam = 4;
  uint64_t seed = 1;
  double temperature = 1;
  std::optional<int64_t> most;
  std::optional<Dtype> dtype;
  Dtype cache = Dtype::f32;
  std::vector<std::string> words;
  bool json = false;
};

void add_options(apps::Command& command, Values& values) {
  using namespace apps;
  const Choices<Dtype> dtypes{{"f32", Dtype::f32}, {"bf16", Dtype::bf16}};
  add_option(command, "model", values.folder, "DIR", "Model folder")->required();
  add_option(command, "--out", values.out, "FILE", "Report");
  add_option(command, "--beam", values.beam, "N", "Beams")->check(at_least(1));
  add_option(command, "--seed", values.seed, "N", "Seed");
  add_option(command, "--temperature", values.temperature, "X", "Temperature")->check(in_range(0.0, 2.0));
  add_option(command, "--max-new-tokens", values.most, "TOKENS", "Limit (default: the model's)");
  add_choice(command, "--dtype", values.dtype, dtypes, "Weights (default: the folder's)");
  add_choice(command, "--cache-dtype", values.cache, dtypes, "Keys and values");
  add_option(command, "--bad-word", values.words, "TEXT", "Never this (default: none)");
  command.add_flag("--json", values.json, "JSON");
  add_threads_option(command);
}

// Discards the program's output.
class Silence {
 public:
  Silence() : out_(std::cout.rdbuf(said_.rdbuf())), err_(std::cerr.rdbuf(said_.rdbuf())) {}
  ~Silence() {
    std::cout.rdbuf(out_);
    std::cerr.rdbuf(err_);
    set_threads(threads_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  std::ostringstream said_;
  std::streambuf *out_, *err_;
  int threads_ = threads();
};

// --config always names the file from the input.
std::vector<std::string> arguments_of(std::string_view lines, const std::string& config) {
  std::vector<std::string> arguments{"qkv"};
  std::istringstream in{std::string(lines)};
  for (std::string line; std::getline(in, line);) {
    const bool behind = arguments.back() == "--config";
    arguments.push_back(behind ? config : line.starts_with("--config=") ? "--config=" + config : line);
  }
  return arguments;
}

void read(std::string_view bytes) {
  static const std::filesystem::path config = scratch_folder("command_line") / "options.toml";
  const std::string_view lines = bytes.substr(0, bytes.find('\0'));
  write(config, bytes.substr(std::min(lines.size() + 1, bytes.size())));
  std::vector<std::string> arguments = arguments_of(lines, config.string());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());

  const Silence silence;
  static std::optional<CLI::App> program;  // must outlive the messages
  program.emplace("qkv", "qkv");
  apps::Command commands(*program);
  commands.require_subcommand(1, 1);
  Values translate, train;
  add_options(*apps::add_command(commands, "translate", "Translate", "qkv translate DIR"), translate);
  apps::Command* group = apps::add_command(commands, "train", "Train", "qkv train translation DIR");
  group->require_subcommand(1, 1);
  add_options(*apps::add_command(*group, "translation", "Train a translator", "qkv train translation DIR"),
              train);
  apps::add_config_option(*program);
  apps::parse_and_run(*program, static_cast<int>(pointers.size()), pointers.data());
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  return {"translate\nmodel\n--beam\n5\n--json"s,
          "translate\nmodel\n--seed=7\n--temperature=0.5\n--bad-word\na b\n--bad-word=c\n--threads\n2"s,
          "train\ntranslation\nmodel\n--dtype\nbf16\n--cache-dtype=f32\n--max-new-tokens\n12\n--config\nx\0"
          "# of all\nbeam = 6\nout = \"a\\tb.html\"\n[translate]\nbad-word = ['x', \"y\"]\njson = true\n"s,
          "translate\n--config=x\n--\nmodel\0temperature = 1.5\n[train.translation]\nseed = 3\n"s,
          "train\ntranslation\n--help"s,
          "tranlate\nmodel"s};
}

}  // namespace

const Reader command_line{"command_line", read, seeds};

}  // namespace qkv::fuzz
