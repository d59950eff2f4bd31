#pragma once
// The manual page, qkv.1.

#include <string>
#include <vector>

#include "apps/cli/declarations.h"

namespace qkv::apps {

// In the man macros (man 7). The first of `commands` is the program.
std::string man_page(const std::vector<DeclaredCommand>& commands, const std::string& version);

}  // namespace qkv::apps
