#pragma once
// One run with one call that fails, and whether the program dealt with it.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/faults/process.h"
#include "tests/faults/workload.h"

namespace qkv::faults {

// A call of preload.cc, and how it fails.
struct CallKind {
  const char* name;        // what the campaign calls it
  const char* call;        // what preload.cc calls it
  int error;               // errno; of a clock, the seconds by which it jumps
  bool all_later = false;  // all calls from the index on fail
  bool harmless = false;   // the program has to succeed all the same
};

const std::vector<CallKind>& call_kinds();
const CallKind& call_kind(const std::string& name);

struct Verdict {
  enum class Kind { not_reached, harmless, failed_cleanly, crash_in_library, wrong };
  Kind kind = Kind::not_reached;
  // Of a wrong one, and of a signal from within a call of oneDNN or SentencePiece that was refused memory:
  // what was expected and what was found.
  std::string complaint = {};
};

struct Programs {
  std::string qkv, preload;
};

class Judge {
 public:
  // Runs the workload without a fault, for what it should result in and how many calls it makes. `scratch` is
  // an empty folder.
  Judge(const Programs& programs, const Workload& workload, const std::filesystem::path& scratch);

  long calls(const CallKind& kind) const;
  // `again`: also do it again after a failure, and compare the result.
  Verdict run(const CallKind& kind, long index, bool again) const;
  // With so much address space, from too little to enough: all allocations, mappings and threads may fail.
  Verdict run_within(unsigned long bytes, bool again) const;

 private:
  Outcome start(const std::vector<std::string>& command, ProcessOptions options) const;
  std::vector<std::string> placed(const std::vector<std::string>& command) const;
  void prepare() const;
  std::string wrong_after_failure(const CallKind& kind, const Outcome& outcome,
                                  const std::string& path) const;
  std::string wrong_reason(const CallKind& kind, const std::string& err, const std::string& path) const;
  Verdict verdict_on(const CallKind& kind, const Outcome& outcome, const std::string& path, bool again) const;
  std::string wrong_result(const Outcome& outcome) const;

  Programs programs_;
  Workload workload_;
  std::filesystem::path scratch_, out_, log_;
  std::map<std::string, std::string> results_;
  std::string stdout_;
  std::map<std::string, long> counts_;
};

}  // namespace qkv::faults
