#include "apps/cli/suggest.h"

#include <algorithm>

#include "apps/cli/peer_names.h"
#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

// Optimal string alignment: Levenshtein distance (1966) with transpositions of neighbours (Damerau 1964).
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      const size_t replaced = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

// Without dashes before it, and with dashes instead of underscores.
std::string bare(const std::string& name) {
  std::string result = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::ranges::replace(result, '_', '-');
  return result;
}

std::optional<std::string> with_bare_name(std::string_view word, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (bare(name) == word) return name;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& names) {
  const std::string theirs = bare(word);
  if (auto same = with_bare_name(theirs, names)) return same;
  for (const std::string_view own : names_for_peers(theirs)) {
    if (auto known = with_bare_name(own, names)) return known;
  }
  std::optional<std::string> found;
  size_t least = std::min<size_t>(3, (word.size() + 2) / 2);  // more edits make another word
  for (const std::string& name : names) {
    const size_t edits = edit_distance(word, name);
    if (edits < least) found = name;
    least = std::min(least, edits);
  }
  return found;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& names) {
  const std::optional<std::string> meant = nearest(word, names);
  return meant ? concat("; did you mean '", *meant, "'?") : "";
}

std::string expected_one_of(const std::vector<std::string>& names, const std::string& found) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return concat("expected one of ", list, ", found '", found, "'", suggestion(found, names));
}

}  // namespace qkv::apps
