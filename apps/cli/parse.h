#pragma once
// Parses and runs the command line.

namespace CLI {
class App;
}

namespace qkv::apps {

// Parses the arguments, and runs the named command. Prints help and version on request, and the help without
// arguments (status 2). Throws UsageError for an invalid command line, naming the
// expected and the found word, with a suggestion for a misspelt one; and the errors of commands.
int parse_and_run(CLI::App& program, int argc, char** argv);

}  // namespace qkv::apps
