#include "apps/command.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <charconv>
#include <sstream>
#include <system_error>

#include "qkv/base/parallel.h"

namespace qkv::apps {
namespace {

template <class Value>
std::string shown(Value value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// False for a number that the type cannot hold.
template <class Integer>
bool convert_integer(const std::string& text, Integer& value) {
  const char* end = text.data() + text.size();
  const auto [behind, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && behind == end;
}

}  // namespace

Option* Option::required() { return option_->required(), this; }
Option* Option::type_name(const std::string& type) { return option_->type_name(type), this; }
Option* Option::default_str(const std::string& text) { return option_->default_str(text), this; }
Option* Option::group(const std::string& name) { return option_->group(name), this; }
Option* Option::check(std::function<std::string(const std::string&)> error) {
  return option_->check(std::move(error)), this;
}
Option* Option::needs(Option* other) { return option_->needs(other->option_), this; }
Option* Option::excludes(Option* other) { return option_->excludes(other->option_), this; }
size_t Option::count() const { return option_->count(); }

Command* Command::add_subcommand(const std::string& name, const std::string& description) {
  return &subcommands_.emplace_back(*app_->add_subcommand(name, description)->group(heading_));
}

void Command::footer(const std::string& text) { app_->footer(text); }
void Command::callback(std::function<void()> run) {
  app_->callback([this, run = std::move(run)] {
    for (const auto& prepare : before_run_) prepare();
    run();
  });
}
void Command::require_subcommand(size_t least, size_t most) { app_->require_subcommand(least, most); }

std::string Command::given_subcommand() const {
  const auto given = app_->get_subcommands();
  return given.empty() ? std::string() : given.front()->get_name();
}

Option* Command::added(CLI::Option* option) { return &options_.emplace_back(*option); }

Option* Command::add_flag(const std::string& name, bool& value, const std::string& help) {
  return added(app_->add_flag(name, value, help));
}

Option* Command::add_flag_function(const std::string& name, std::function<void(int64_t)> take,
                                   const std::string& help) {
  return added(app_->add_flag_function(name, std::move(take), help));
}

Option* Command::add_text(const std::string& name, const std::function<void(const std::string&)>& take,
                          const std::string& help) {
  return added(app_->add_option_function<std::string>(name, take, help));
}

Option* Command::add_texts(const std::string& name,
                           const std::function<void(const std::vector<std::string>&)>& take,
                           const std::string& help) {
  CLI::Option* option = app_->add_option_function<std::vector<std::string>>(name, take, help);
  if (name.starts_with('-')) option->allow_extra_args(false);
  return added(option);
}

bool Command::has_option(const std::string& name) const { return app_->get_option_no_throw(name) != nullptr; }

Command* add_command(Command& parent, const std::string& name, const std::string& description,
                     const std::string& example) {
  Command* command = parent.add_subcommand(name, description);
  command->footer("Example:\n  " + example);
  return command;
}

std::string join(const std::vector<std::string>& names, const std::string& separator) {
  return CLI::detail::join(names, separator);
}

namespace option {

bool is_whole(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

bool convert(const std::string& text, int& value) { return convert_integer(text, value); }
bool convert(const std::string& text, int64_t& value) { return convert_integer(text, value); }
bool convert(const std::string& text, uint64_t& value) { return convert_integer(text, value); }
bool convert(const std::string& text, float& value) { return CLI::detail::lexical_cast(text, value); }
bool convert(const std::string& text, double& value) { return CLI::detail::lexical_cast(text, value); }

std::string text_of(int64_t value) { return shown(value); }
std::string text_of(uint64_t value) { return shown(value); }
std::string text_of(double value) { return shown(value); }

void reject(const std::string& name, const std::string& message) {
  throw CLI::ValidationError(name, message);
}

}  // namespace option

std::vector<std::string> choices_of(const std::string& type) {
  if (type.find('|') == std::string::npos ||
      std::ranges::any_of(type, [](unsigned char c) { return std::isupper(c) != 0; })) {
    return {};
  }
  return CLI::detail::split(type, '|');
}

void add_threads_option(Command& command) {
  command
      .add_text(
          "--threads", [](const std::string& count) { set_threads(option::parsed<int>(count)); },
          "Threads to use; results do not depend on it (default: all cores)")
      ->type_name("N")
      ->check([](const std::string& text) { return option::number_error<int>(text); });
}

}  // namespace qkv::apps
