#include "qkv/pipelines/zero_shot/labels.h"

#include <algorithm>
#include <set>

#include "qkv/base/error.h"
#include "qkv/pipelines/checks.h"
#include "qkv/text/lines.h"

namespace qkv::pipelines {
namespace {

constexpr std::string_view kPlace = "{}";

}  // namespace

void require_labels(std::span<const std::string> labels, std::string_view hypothesis) {
  if (labels.empty()) throw UsageError("labels: expected at least one, found none");
  std::set<std::string_view> seen;
  if (const std::string error = text_error(hypothesis); !error.empty())
    throw UsageError(concat("hypothesis: ", error));
  for (const std::string& label : labels) {
    if (const std::string error = text_error(label); !error.empty() && !text::is_blank(label))
      throw UsageError(concat("labels: '", label, "': ", error));
    if (text::is_blank(label)) throw UsageError("labels: expected texts, found an empty one");
    if (!seen.insert(label).second)
      throw UsageError(concat("labels: expected different ones, found '", label, "' twice"));
  }
  if (hypothesis.find(kPlace) == std::string_view::npos)
    throw UsageError(
        concat("hypothesis: expected a sentence with {} in place of the label, found '", hypothesis, "'"));
}

std::vector<std::string> listed_labels(std::string_view list) {
  std::vector<std::string> labels;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    labels.emplace_back(text::trimmed(list.substr(begin, end - begin), " \t"));
    begin = end + 1;
  }
  return labels;
}

std::string hypothesis_of(std::string_view hypothesis, std::string_view label) {
  std::string sentence(hypothesis);
  return sentence.replace(sentence.find(kPlace), kPlace.size(), label);
}

}  // namespace qkv::pipelines
