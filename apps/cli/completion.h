#pragma once
// Shell scripts that complete commands, options, values and files.

#include <string>
#include <vector>

#include "apps/cli/declarations.h"

namespace qkv::apps {

// The first of `commands` is the program.
std::string bash_completion(const std::vector<DeclaredCommand>& commands);
std::string zsh_completion(const std::vector<DeclaredCommand>& commands);
std::string fish_completion(const std::vector<DeclaredCommand>& commands);

}  // namespace qkv::apps
