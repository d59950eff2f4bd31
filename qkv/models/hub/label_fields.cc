#include "qkv/models/hub/label_fields.h"

#include <array>
#include <charconv>

#include "qkv/base/error.h"

namespace qkv::models {
namespace {

constexpr int64_t kMaxLabels = 1'000'000;

constexpr std::array<std::pair<std::string_view, ProblemType>, 3> kProblemTypes{
    {{"single_label_classification", ProblemType::single_label},
     {"multi_label_classification", ProblemType::multi_label},
     {"regression", ProblemType::regression}}};

std::vector<std::string> read_labels(const ConfigReader& reader) {
  const std::vector<std::pair<std::string, std::string>> entries = reader.entries("id2label");
  const int64_t count = entries.empty() ? reader.integer("num_labels", 2) : std::ssize(entries);
  if (count < 1 || count > kMaxLabels) reader.reject("num_labels", concat("1 to ", kMaxLabels));
  std::vector<std::string> labels(static_cast<size_t>(count));
  if (entries.empty()) {
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = concat("LABEL_", i);
  }
  std::vector<bool> known(labels.size());
  for (const auto& [number, label] : entries) {
    size_t i = labels.size();
    const char* const end = number.data() + number.size();
    if (std::from_chars(number.data(), end, i).ptr != end || i >= labels.size() || known[i]) {
      reader.reject("id2label", concat("the numbers from 0 to ", labels.size() - 1, " and their labels"));
    }
    known[i] = true;
    labels[i] = label;
  }
  return labels;
}

ProblemType read_problem_type(const ConfigReader& reader, size_t labels) {
  const std::string type = reader.string("problem_type", "");
  for (const auto& [word, problem] : kProblemTypes) {
    // With one label, single-label classification is a yes-or-no decision.
    if (word == type && !(problem == ProblemType::single_label && labels == 1)) return problem;
  }
  return labels == 1 ? ProblemType::multi_label : ProblemType::single_label;
}

}  // namespace

void label_fields(const Fields& fields, std::vector<std::string>& labels, ProblemType& problem) {
  if (const ConfigReader* reader = fields.reader()) {
    labels = read_labels(*reader);
    problem = read_problem_type(*reader, labels.size());
    return;
  }
  std::vector<std::pair<std::string, std::string>> entries;
  std::vector<std::pair<std::string, int64_t>> ids;
  for (const std::string& label : labels) {
    ids.emplace_back(label, std::ssize(entries));
    entries.emplace_back(std::to_string(entries.size()), label);
  }
  fields.writer()->strings("id2label", entries);
  fields.writer()->integers("label2id", ids);
  for (const auto& [word, type] : kProblemTypes) {
    if (type == problem && type != ProblemType::single_label) fields.writer()->string("problem_type", word);
  }
}

}  // namespace qkv::models
