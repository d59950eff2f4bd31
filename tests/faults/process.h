#pragma once
// Runs a program to its end.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace qkv::faults {

struct Outcome {
  int status = -1;  // exit status, or 128 + the terminating signal (SIGALRM: longer than a minute)
  std::string out, err;
};

struct ProcessOptions {
  std::map<std::string, std::string> environment = {};  // added to this process's environment
  std::string input = {};                               // on stdin
  std::string stdout_to = {};                           // a file instead of Outcome::out
  unsigned long address_space = 0;                      // bytes that the process may map; 0: no limit
};

// `scratch` is a folder for the streams of the process.
Outcome run_process(const std::vector<std::string>& command, const std::filesystem::path& scratch,
                    const ProcessOptions& options = {});

std::string read_whole(const std::filesystem::path& file);
void write_whole(const std::filesystem::path& file, const std::string& content);

}  // namespace qkv::faults
