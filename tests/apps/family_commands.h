#pragma once
// Commands for the golden folders of families, compared with transformers on the same texts
// (tests/golden/families_texts.py).

#include <nlohmann/json.hpp>

#include "tests/apps/json_results.h"
#include "tests/apps/run.h"

namespace qkv::testing {

class FamilyCommands : public CommandTest {
 protected:
  static nlohmann::json recorded(const std::string& model) {
    return nlohmann::json::parse(read_file(recorded_model(model) + "/texts.json"));
  }
  std::vector<nlohmann::json> results(const std::string& line, const nlohmann::json& expected) const {
    std::string inputs;
    for (const nlohmann::json& one : expected) inputs += one["input"].get<std::string>() + "\n";
    return line_results(line, inputs);
  }
  void expect_recorded(const std::string& line, const std::string& model, const std::string& field,
                       std::string recorded_as = {}) const {
    if (recorded_as.empty()) recorded_as = field;
    const nlohmann::json expected = recorded(model);
    const auto found = results(line, expected);
    for (size_t i = 0; i < found.size(); ++i) expect_same(found[i][field], expected[i][recorded_as], line);
  }
};

}  // namespace qkv::testing
