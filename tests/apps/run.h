#pragma once
// Runs the program as a user does.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "tests/apps/json_results.h"
#include "tests/support/scratch.h"

namespace qkv::testing {

using Arguments = std::vector<std::string>;

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

inline Arguments plus(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Expects failure with this status, nothing on stdout, and a message that contains all parts, and none of the
// names and places of C++.
inline void expect_failure(const Outcome& outcome, int status, const std::vector<std::string>& parts) {
  for (const char* part : {"::", ".cc(", "[json.", "e+", "basic_string", "what():"})
    EXPECT_EQ(outcome.err.find(part), std::string::npos) << part << " in: " << outcome.err;
  EXPECT_EQ(outcome.status, status) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  expect_parts(outcome.err, parts);
}

// A recorded model: NAME of models/golden or pipelines/golden, or hub/NAME.
inline std::string recorded_model(const std::string& name) {
  const std::filesystem::path data = QKV_TEST_DATA;
  for (const char* folder : {"pipelines/golden", "apps/golden"})
    if (std::filesystem::exists(data / folder / name)) return (data / folder / name).string();
  return (data / "models/golden" / name).string();
}

// Command lines as one string: words separated by spaces, or in single quotes. "@" stands for a folder of the
// test, "%NAME" at the end of a word for the folder recorded_model(NAME).
class CommandTest : public ::testing::Test {
 protected:
  Arguments words(const std::string& line) const {
    Arguments arguments;
    bool in_word = false, in_quotes = false;
    for (const char c : line) {
      if (c == ' ' && !in_quotes) {
        in_word = false;
        continue;
      }
      if (!in_word) arguments.emplace_back();
      in_word = true;
      if (c == '\'') {
        in_quotes = !in_quotes;
      } else if (c == '@') {
        arguments.back() += scratch_.path().string();
      } else {
        arguments.back() += c;
      }
    }
    for (std::string& word : arguments)
      if (const size_t at = word.find('%'); at != word.npos)
        word.replace(at, word.npos, recorded_model(word.substr(at + 1)));
    return arguments;
  }
  std::string path(const std::string& name) const { return (scratch_ / name).string(); }
  std::string content(const std::string& name) const { return read_file(scratch_ / name); }
  nlohmann::json json_file(const std::string& name) const { return nlohmann::json::parse(content(name)); }

  Outcome run(const std::string& line, const RunOptions& options = {}) const {
    return run_qkv(words(line), options);
  }
  // stdout of a command that must succeed.
  std::string output(const std::string& line, const std::string& input = {}) const {
    const Outcome outcome = run(line, {.input = input});
    EXPECT_EQ(outcome.status, 0) << line << ": " << outcome.err;
    return outcome.out;
  }
  // Its JSON.
  nlohmann::json result(const std::string& line) const {
    const std::string text = output(line + " --json");
    return text.empty() ? nlohmann::json() : nlohmann::json::parse(text);
  }
  // The JSON of each line of stdin, on which neither threads nor chunks may have an effect.
  std::vector<nlohmann::json> line_results(const std::string& line, const std::string& input) const {
    const std::string text = output(line + " --json --threads 1", input);
    EXPECT_EQ(output(line + " --json --threads 3 --chunk-lines 1", input), text);
    std::vector<nlohmann::json> results = json_lines(text);
    const size_t lines = count_lines_of(input);
    EXPECT_EQ(results.size(), lines);
    results.resize(lines);
    return results;
  }
  void expect_refused(const std::string& line, int status, const std::vector<std::string>& parts,
                      const std::string& input = {}) const {
    SCOPED_TRACE(line);
    expect_failure(run(line, {.input = input}), status, parts);
  }

  Scratch scratch_;
};

}  // namespace qkv::testing
