#pragma once
// The part of TOML that options need.

#include <istream>
#include <string>
#include <vector>

namespace qkv::apps {

struct TomlEntry {
  int line = 0;                     // from 1
  std::vector<std::string> table;   // [train.translation] is {"train", "translation"}
  std::string key;                  // bare: letters, digits, - and _
  std::vector<std::string> values;  // of an array its elements: strings without quotes, numbers, true, false
};

// Comments, tables, and keys with strings ("basic" and 'literal'), numbers, booleans and arrays of them, over
// several lines too. Throws UsageError "NAME:LINE: expected ..., found ..." for all else: other values
// (dates, inline tables, """), a key without a value, and a key that a table has twice.
std::vector<TomlEntry> read_toml(std::istream& in, const std::string& name);

}  // namespace qkv::apps
