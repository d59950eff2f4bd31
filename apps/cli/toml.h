#pragma once
// Options in a TOML file.

#include <istream>
#include <string>
#include <vector>

namespace qkv::apps {

struct TomlEntry {
  int line = 0;                    // from 1
  std::vector<std::string> table;  // [train.translation] is {"train", "translation"}
  std::string key;
  std::vector<std::string> values;  // the elements of an array: strings without quotes, numbers, true, false
};

// The entries in the order of the file. Throws UsageError "NAME:LINE: ..." for text that is not TOML,
// repeated keys, and values other than strings, numbers, booleans and arrays of them.
std::vector<TomlEntry> read_toml(std::istream& in, const std::string& name);

}  // namespace qkv::apps
