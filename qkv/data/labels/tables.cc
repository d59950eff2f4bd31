#include "qkv/data/labels/tables.h"

#include <algorithm>
#include <cctype>

#include "qkv/base/error.h"

namespace qkv::data {

bool is_column(std::string_view text, ColumnNames names) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::count(names, lower) > 0;
}

void refuse_header(const std::string& where, std::string_view expected) {
  throw DataError(concat(where, ": expected ", expected, ", found the names of columns; remove the line"));
}

void refuse_csv(const std::filesystem::path& file, std::string_view expected, std::string_view remedy) {
  const std::filesystem::path plain = file.extension() == ".gz" ? file.stem() : file;
  if (plain.extension() != ".csv") return;
  throw DataError(
      concat(file.string(), ": expected ", expected, ", found a file whose name ends in .csv; ", remedy));
}

}  // namespace qkv::data
