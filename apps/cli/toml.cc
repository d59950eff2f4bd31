#include "apps/cli/toml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

[[noreturn]] void fail_at(const std::string& name, const toml::source_region& region,
                          const std::string& message) {
  throw UsageError(concat(name, ":", region.begin.line, ": ", message));
}

// The value as on the command line.
std::string text_of(const toml::node& value, const std::string& name) {
  if (const auto* text = value.as_string()) return text->get();
  if (const auto* whole = value.as_integer()) return std::to_string(whole->get());
  if (const auto* flag = value.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* number = value.as_floating_point()) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number->get());
    return {digits.data(), end.ptr};
  }
  fail_at(name, value.source(), "expected a string, a number, true or false, found another value");
}

void append_entries(const toml::table& table, const std::vector<std::string>& path, const std::string& name,
                    std::vector<TomlEntry>& entries) {
  for (const auto& [key, value] : table) {
    if (const toml::table* inner = value.as_table(); inner != nullptr && !inner->is_inline()) {
      std::vector<std::string> longer = path;
      longer.emplace_back(key.str());
      append_entries(*inner, longer, name, entries);
      continue;
    }
    TomlEntry entry{.line = static_cast<int>(value.source().begin.line),
                    .table = path,
                    .key = std::string(key.str()),
                    .values = {}};
    if (const toml::array* array = value.as_array()) {
      for (const toml::node& one : *array) entry.values.push_back(text_of(one, name));
    } else {
      entry.values.push_back(text_of(value, name));
    }
    entries.push_back(std::move(entry));
  }
}

}  // namespace

std::vector<TomlEntry> read_toml(std::istream& in, const std::string& name) {
  std::vector<TomlEntry> entries;
  try {
    append_entries(toml::parse(in), {}, name, entries);
  } catch (const toml::parse_error& error) {
    fail_at(name, error.source(), std::string(error.description()));
  }
  std::ranges::stable_sort(entries, {}, &TomlEntry::line);
  return entries;
}

}  // namespace qkv::apps
