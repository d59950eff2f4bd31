#pragma once
// Small runs of the program, with their outputs and the command that repeats them after a failure.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace qkv::faults {

struct Workload {
  std::string name;
  // OUT in an argument is the output file or folder.
  std::vector<std::string> command;
  std::vector<std::string> again;       // repeats a failed run, with the result of a run that did not fail
  std::string out;                      // OUT's name; empty: the result is on stdout
  std::string previous = {};            // OUT's content before the run; must survive a failure
  std::string input = {};               // on stdin
  bool starts_library_threads = false;  // SentencePiece's trainer, which needs all its threads
};

// Creates corpus, vocabulary and model in `folder` with the program; returns workloads that use them.
std::vector<Workload> make_workloads(const std::string& program, const std::filesystem::path& folder);

// The contents of OUT's files by path, without curves and speeds; checkpoints contain times and are only
// counted.
std::map<std::string, std::string> results_of(const std::filesystem::path& out);

}  // namespace qkv::faults
