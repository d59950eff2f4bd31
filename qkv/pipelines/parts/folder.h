#pragma once
// The files of a run in parts.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "qkv/base/files.h"
#include "qkv/pipelines/parts/input.h"
#include "qkv/pipelines/parts/parts.h"

namespace qkv::pipelines {

// The folder of the parts: run.json, which identifies the run, and a file for each finished part: a hash of
// what follows, a line of JSON, and the text. Used by one process at a time. Functions throw IoError.
class PartFolder {
 public:
  // Throws UsageError if it has the parts of another run, or another process uses it.
  PartFolder(const PartOptions& options, const PartInput& input);

  // The counts of a finished run, whose output is unchanged.
  std::optional<LineCounts> finished() const;
  // The result of a finished part, without its text; nothing if it is to be computed.
  std::optional<PartResult> find(size_t part) const;
  void write(size_t part, const PartResult& result) const;
  // Writes the output. The parts are removed last, so that a run that ends meanwhile can repeat it.
  void join(const LineCounts& counts);
  // Of a finished run, which may have ended before it did.
  void remove_parts() const;

  const std::filesystem::path& output() const { return output_; }

 private:
  std::filesystem::path file(size_t part) const;
  void write_record() const;
  void require_same_run();
  void require_same(const std::string& name, const nlohmann::ordered_json& expected,
                    const nlohmann::ordered_json& all) const;

  std::filesystem::path output_, path_;
  nlohmann::ordered_json identity_;
  const PartInput& input_;
  std::string run_;  // a hash of the identity
  std::optional<FolderLock> lock_;
  nlohmann::ordered_json record_;
};

}  // namespace qkv::pipelines
