#pragma once
// Labels of one's own, each in a sentence.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::pipelines {

// Throws UsageError for no labels, an empty or a repeated one, and a hypothesis without {}.
void require_labels(std::span<const std::string> labels, std::string_view hypothesis);

// "sport, politics": without the spaces around the labels.
std::vector<std::string> listed_labels(std::string_view list);

// The hypothesis, with the label in place of its first {}.
std::string hypothesis_of(std::string_view hypothesis, std::string_view label);

}  // namespace qkv::pipelines
