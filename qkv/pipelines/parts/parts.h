#pragma once
// A pipeline over the lines of a file, in parts: the ranks share them, and a run that was stopped goes on
// with those that are missing. The output has the same bytes on any number of ranks.

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/base/communicator.h"
#include "qkv/pipelines/lines.h"

namespace qkv::pipelines {

struct PartOptions {
  // Both on the root's machine. Beside the output is a folder for the parts, OUTPUT.parts.
  std::filesystem::path input, output;
  LineOptions lines;  // a part is a chunk
  // Decides the results, by name: build, options, contents of model files. Equal on all ranks, and each time.
  std::vector<std::pair<std::string, std::string>> identity;
  // On the root: messages about lines, and progress. Called by one thread at a time.
  std::function<void(const std::string&)> report = {};
};

struct PartResult {
  std::string text;                   // the lines of the output
  std::vector<std::string> messages;  // about single lines
  LineCounts counts;
};

// Called by all ranks. The root reads the input, gives each free rank the next part, writes the results to a
// file each, and joins them. At any moment the parts on disk are whole, and the output is the previous or the
// new one. A finished run is recognised. Returns, on the root, the counts of all lines; elsewhere zeros.
// `run` is called by the calling thread. Throws IoError; UsageError if the folder has parts of another run or
// another process uses it, or if a rank has another identity; RankError; and the errors of `run`.
LineCounts run_parts(const PartOptions& options, const std::function<PartResult(LineChunk)>& run,
                     Communicator& ranks);

}  // namespace qkv::pipelines
