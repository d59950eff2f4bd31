#pragma once
// The subset of TOML needed for options.

#include <istream>
#include <string>
#include <vector>

namespace qkv::apps {

struct TomlEntry {
  int line = 0;                     // from 1
  std::vector<std::string> table;   // [train.translation] is {"train", "translation"}
  std::string key;                  // bare: letters, digits, - and _
  std::vector<std::string> values;  // the elements of an array: strings without quotes, numbers, true, false
};

// Comments, tables, and keys with strings ("basic" and 'literal'), numbers, booleans, and arrays of them,
// also over several lines. Throws UsageError "NAME:LINE: expected ..., found ..." for anything else: other
// values (dates, inline tables, """), a key without a value, and a repeated key.
std::vector<TomlEntry> read_toml(std::istream& in, const std::string& name);

}  // namespace qkv::apps
