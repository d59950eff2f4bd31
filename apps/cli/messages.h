#pragma once
// What the program says on stderr, in the words of the command line.

#include <CLI/CLI.hpp>
#include <string>

namespace qkv::apps {

// The command that was asked for: `app`, or its command's command.
const CLI::App& innermost(const CLI::App& app);

// "qkv train translation".
std::string full_name(const CLI::App& command);

// The library's messages name fields ("max_new_tokens: expected ..."). Where an option of that name was
// given, the message names the option (--max-new-tokens): at its beginning any field, elsewhere those of
// several words, which are no others.
std::string with_option_names(const CLI::App& command, const std::string& message);

// Of which command say() is; `program` must live until the last message.
void set_program(const CLI::App& program);

// "qkv: " and the message, with option names, as a line of stderr.
void say(const std::string& message);

// Says "reading from the terminal, Ctrl-D ends" where stdin is one. Commands call it before they read stdin.
void announce_stdin();

}  // namespace qkv::apps
