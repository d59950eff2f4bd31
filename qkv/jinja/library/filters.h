#pragma once

#include <string_view>
#include <utility>

#include "qkv/jinja/library/library.h"
#include "qkv/jinja/run/run.h"

namespace qkv::jinja {

using NamedFilter = std::pair<std::string_view, Filter>;

// Null if there is none of this name.
Filter find_list_filter(std::string_view name);

// The value of an attribute path "a.b.0" (a text) or index (an integer) of an item; the item for None.
// `otherwise`, unless null, replaces what is missing.
Value path_value(Run& run, const Value& item, const Value& path, const Value* otherwise = nullptr);

}  // namespace qkv::jinja
