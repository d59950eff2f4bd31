#pragma once
// Compares the program's JSON with recorded results of another program.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "qkv/base/error.h"

namespace qkv::testing {

inline std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// Fractional numbers may differ in their last digits; objects may have additional members.
inline void expect_same(const nlohmann::json& found, const nlohmann::json& expected, const std::string& where,
                        double tolerance = 2e-5) {
  if (expected.is_number_float()) {
    ASSERT_TRUE(found.is_number()) << where;
    const double wanted = expected.get<double>();
    EXPECT_NEAR(found.get<double>(), wanted, tolerance * std::max(1.0, std::abs(wanted))) << where;
  } else if (expected.is_array()) {
    ASSERT_EQ(found.size(), expected.size()) << where << ": " << found.dump();
    for (size_t i = 0; i < expected.size(); ++i)
      expect_same(found[i], expected[i], concat(where, ".", i), tolerance);
  } else if (expected.is_object()) {
    for (const auto& [key, value] : expected.items()) {
      ASSERT_TRUE(found.contains(key)) << where << ": " << key << " in " << found.dump();
      expect_same(found[key], value, concat(where, ".", key), tolerance);
    }
  } else {
    EXPECT_EQ(found, expected) << where;
  }
}

}  // namespace qkv::testing
