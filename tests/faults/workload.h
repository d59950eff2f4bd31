#pragma once
// Small runs of the program, each with what it makes and how it is done again after a failure.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace qkv::faults {

struct Workload {
  std::string name;
  // OUT in an argument is the file or folder that the run makes.
  std::vector<std::string> command;
  std::vector<std::string> again;       // after a failure; ends in the same result as a run that did not fail
  std::string out;                      // OUT's name; empty: the result is on stdout
  std::string previous = {};            // the content that OUT has before the run: a failure leaves it whole
  std::string input = {};               // on stdin
  bool starts_library_threads = false;  // of SentencePiece's trainer, which needs all of them
};

// Makes corpus, vocabulary and model in `folder`, with the program, and returns the workloads over them.
std::vector<Workload> make_workloads(const std::string& program, const std::filesystem::path& folder);

// The bytes of all that the run made in OUT, by path, but those of curves and speeds. Of checkpoints, which
// contain times, only the number of checkpoints counts.
std::map<std::string, std::string> results_of(const std::filesystem::path& out);

}  // namespace qkv::faults
