#pragma once
// Judges how the program handles one failing call.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/faults/process.h"
#include "tests/faults/workload.h"

namespace qkv::faults {

// A call of preload.cc and its failure.
struct CallKind {
  const char* name;        // in the campaign
  const char* call;        // in preload.cc
  int error;               // errno; for clocks the jump in seconds
  bool all_later = false;  // all calls from the index on fail
  bool harmless = false;   // the program must succeed
  bool harmful = false;    // the program must fail if the call was for a file; folders need not be flushed
  bool allocation = false;
  bool of_libraries = false;  // only those of oneDNN and SentencePiece
};

const std::vector<CallKind>& call_kinds();
const CallKind& call_kind(const std::string& name);

struct Verdict {
  enum class Kind { not_reached, harmless, failed_cleanly, wrong };
  Kind kind = Kind::not_reached;
  // Expected and found, for `wrong`.
  std::string complaint = {};
};

struct Programs {
  std::string qkv, preload;
};

class Judge {
 public:
  // Runs the workload without a fault to record its result and its number of calls. `scratch` is an empty
  // folder.
  Judge(const Programs& programs, const Workload& workload, const std::filesystem::path& scratch);

  long calls(const CallKind& kind) const;
  // `again`: repeats the run after a failure and compares the result.
  Verdict run(const CallKind& kind, long index, bool again) const;
  // Limits the address space, so that allocations, mappings and threads may fail.
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
  std::vector<long> of_libraries_;  // indices of allocations
};

}  // namespace qkv::faults
