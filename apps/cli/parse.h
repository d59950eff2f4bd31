#pragma once
// The command line, parsed and run.

#include <CLI/CLI.hpp>

namespace qkv::apps {

// Parses, and runs the command that is named. Prints help and version where they are asked for, and the help
// where there are no arguments at all (status 2). Throws UsageError for a wrong command line, naming what was
// expected, what was found, and what a misspelt word may have meant; and what commands throw.
int parse_and_run(CLI::App& program, int argc, char** argv);

}  // namespace qkv::apps
