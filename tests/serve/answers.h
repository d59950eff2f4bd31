#pragma once
// What a test expects of an answer.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/serve/fake_reply.h"

namespace qkv::testing {

inline nlohmann::json json_of(const serve::HttpResponse& response) {
  EXPECT_EQ(response.status, 200) << response.body;
  return nlohmann::json::parse(response.body);
}

// Expects an error of this status that says all parts.
inline void expect_error(const serve::HttpResponse& response, int status,
                         const std::vector<std::string>& parts) {
  EXPECT_EQ(response.status, status) << response.body;
  for (const std::string& part : parts)
    EXPECT_NE(response.body.find(part), std::string::npos) << response.body;
}

}  // namespace qkv::testing
