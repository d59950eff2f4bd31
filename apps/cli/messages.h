#pragma once
// The program's messages on stderr, with the names of the command line.

#include <string>

namespace CLI {
class App;
}

namespace qkv::apps {

// The selected command: `app`, or its innermost subcommand.
const CLI::App& innermost(const CLI::App& app);

// "qkv train translation".
std::string full_name(const CLI::App& command);

// The library's messages name fields ("max_new_tokens: expected ..."). If an option of that name was given,
// the message names the option (--max-new-tokens): at the beginning any field, elsewhere only unambiguous
// names of several words.
std::string with_option_names(const CLI::App& command, const std::string& message);

// The program whose options say() names; it must outlive the last message.
void set_program(const CLI::App& program);

// That program; call it after set_program().
const CLI::App& the_program();

// Prints "qkv: " and the message, with option names, on stderr.
void say(const std::string& message);

// Prints "reading from the terminal, Ctrl-D ends" if stdin is a terminal. Commands call it before reading
// stdin.
void announce_stdin();

}  // namespace qkv::apps
