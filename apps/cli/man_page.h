#pragma once
// The manual pages: qkv.1, and qkv-COMMAND.1 of each command.

#include <string>
#include <vector>

#include "apps/cli/declarations.h"

namespace qkv::apps {

struct ManPage {
  std::string file;  // "qkv-train-lm.1"
  std::string text;  // in the man macros (man 7)
};

// The page of one of `commands`, the first of which is the program.
ManPage man_page(const std::vector<DeclaredCommand>& commands, const DeclaredCommand& command,
                 const std::string& version);

}  // namespace qkv::apps
