#pragma once
// Runs the program as a user does.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "tests/support/scratch.h"

namespace qkv::testing {

struct Outcome {
  int status = -1;  // the exit status; 128 + signal if killed by one
  std::string out, err;
};

inline std::string quoted(const std::string& text) {
  std::string result(1, '\'');
  for (const char c : text) {
    if (c == '\'') result += "'\\'";
    result += c;
  }
  result += '\'';
  return result;
}

struct RunOptions {
  std::string input = {};        // stdin
  std::string stdout_to = {};    // redirects stdout to this file instead of Outcome::out
  std::string environment = {};  // assignments, as "A=1 B=2"
};

inline Outcome run_qkv(const std::vector<std::string>& arguments, const RunOptions& options = {}) {
  const Scratch scratch;
  const std::string in = scratch.write("in", options.input).string();
  const std::string out = options.stdout_to.empty() ? (scratch / "out").string() : options.stdout_to;
  const std::string err = (scratch / "err").string();
  std::string command = concat(options.environment, " ", quoted(QKV_PROGRAM));
  for (const std::string& argument : arguments) command += concat(" ", quoted(argument));
  command += concat(" <", quoted(in), " >", quoted(out), " 2>", quoted(err));
  const int status = std::system(command.c_str());
  Outcome outcome;
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (options.stdout_to.empty()) outcome.out = read_file(out);
  outcome.err = read_file(err);
  return outcome;
}

inline size_t count_lines_of(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Expects failure with this status, nothing on stdout, and a single message that contains all parts.
inline void expect_failure(const Outcome& outcome, int status, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.status, status) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  for (const std::string& part : parts) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << "expected \"" << part << "\" in: " << outcome.err;
  }
}

}  // namespace qkv::testing
