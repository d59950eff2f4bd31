#include "tests/faults/judge.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <stdexcept>

namespace qkv::faults {
namespace {

namespace fs = std::filesystem;

constexpr int kDay = 24 * 60 * 60;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool says_out_of_memory(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return contains(text, "out of memory");
}

// The target of a temporary file.
std::string final_name(const std::string& path) {
  const std::string name = fs::path(path).filename();
  return name.substr(0, name.find(".partial"));
}

}  // namespace

const std::vector<CallKind>& call_kinds() {
  static const std::vector<CallKind> kinds{
      {.name = "open", .call = "open", .error = EMFILE},
      {.name = "read", .call = "read", .error = EIO},
      {.name = "write", .call = "write", .error = EIO},
      {.name = "full-disk", .call = "write", .error = ENOSPC, .all_later = true},
      {.name = "short-write", .call = "short", .error = 0, .harmless = true},
      {.name = "fsync", .call = "fsync", .error = EIO, .harmful = true},
      {.name = "rename", .call = "rename", .error = EACCES},
      {.name = "mmap", .call = "mmap", .error = ENOMEM},
      {.name = "close", .call = "close", .error = EIO},
      {.name = "unlink", .call = "unlink", .error = EACCES},
      {.name = "mkdir", .call = "mkdir", .error = EACCES},
      {.name = "malloc", .call = "malloc", .error = ENOMEM, .allocation = true},
      {.name = "library", .call = "malloc", .error = ENOMEM, .allocation = true, .of_libraries = true},
      {.name = "thread", .call = "thread", .error = EAGAIN, .harmless = true},
      {.name = "no-threads", .call = "thread", .error = EAGAIN, .all_later = true, .harmless = true},
      {.name = "clock-forward", .call = "clock", .error = kDay, .all_later = true, .harmless = true},
      {.name = "clock-back", .call = "clock", .error = -kDay, .all_later = true, .harmless = true}};
  return kinds;
}

const CallKind& call_kind(const std::string& name) {
  const auto found = std::ranges::find(call_kinds(), name, &CallKind::name);
  if (found == call_kinds().end()) throw std::runtime_error("no such call: " + name);
  return *found;
}

Judge::Judge(const Programs& programs, const Workload& workload, const fs::path& scratch)
    : programs_(programs),
      workload_(workload),
      scratch_(scratch),
      out_(scratch / "out" / workload.out),
      log_(scratch / "log") {
  prepare();
  const Outcome outcome = start(workload_.command, {.environment = {{"QKV_FAULT_LIBRARIES", "1"}}});
  if (outcome.status != 0)
    throw std::runtime_error(workload_.name + " fails without a fault: " + outcome.err);
  results_ = results_of(out_);
  stdout_ = outcome.out;
  std::istringstream log(read_whole(log_));
  std::string word, call;
  long number = 0;
  while (log >> word) {
    if (word == "library" && log >> number) of_libraries_.push_back(number);
    if (word == "count" && log >> call >> number) counts_[call] = number;
  }
}

long Judge::calls(const CallKind& kind) const {
  return kind.of_libraries ? std::ssize(of_libraries_) : counts_.at(kind.call);
}

std::vector<std::string> Judge::placed(const std::vector<std::string>& command) const {
  std::vector<std::string> result = command;
  std::ranges::replace(result, std::string("OUT"), out_.string());
  return result;
}

void Judge::prepare() const {
  fs::remove_all(scratch_ / "out");
  fs::create_directories(scratch_ / "out");
  if (!workload_.previous.empty()) write_whole(out_, workload_.previous);
}

Outcome Judge::start(const std::vector<std::string>& command, ProcessOptions options) const {
  fs::remove(log_);
  options.input = workload_.input;
  options.environment["QKV_FAULT_LOG"] = log_;
  options.environment["LD_PRELOAD"] = programs_.preload;
  return run_process(placed(command), scratch_, options);
}

std::string Judge::wrong_result(const Outcome& outcome) const {
  if (outcome.out != stdout_ && workload_.out != "report.html") return "stdout differs: " + outcome.out;
  const auto found = results_of(out_);
  if (found == results_) return {};
  std::string names;
  for (const auto& [name, content] : results_) {
    const auto other = found.find(name);
    if (other == found.end())
      names += " missing: " + name;
    else if (other->second != content)
      names += " differs: " + name;
  }
  for (const auto& [name, content] : found) {
    if (!results_.contains(name)) names += " unexpected: " + name;
  }
  return "the result is another:" + names;
}

std::string Judge::wrong_reason(const CallKind& kind, const std::string& err, const std::string& path) const {
  const std::string reason = std::strerror(kind.error);
  if (kind.error == ENOMEM)
    return says_out_of_memory(err) || contains(err, reason) ? "" : "expected \"out of memory\"";
  const std::string name = final_name(path);
  // Of a thread, the path is the library that wanted it.
  const bool named = !path.starts_with("/") || path.starts_with("/proc/") || contains(err, name) ||
                     contains(path, "(deleted)") || (name == "stdin" && contains(err, "input"));
  if (!named) return "expected a message that names " + name;
  return contains(err, reason) ? "" : "expected a message that says: " + reason;
}

std::string Judge::wrong_after_failure(const CallKind& kind, const Outcome& outcome,
                                       const std::string& path) const {
  if (outcome.status != 1) return "expected exit status 1, found " + std::to_string(outcome.status);
  if (kind.harmless && !workload_.starts_library_threads) return "expected success";
  if (const std::string wrong = wrong_reason(kind, outcome.err, path); !wrong.empty()) return wrong;
  if (!workload_.previous.empty()) {
    const std::string now = read_whole(out_);
    if (now != workload_.previous && now != results_.at("")) return "the previous content is not whole";
  }
  for (const auto& [name, content] : results_of(scratch_ / "out")) {
    if (std::string(kind.call) != "unlink" && contains(name, "partial")) return "left behind: " + name;
  }
  return {};
}

Verdict Judge::verdict_on(const CallKind& kind, const Outcome& outcome, const std::string& path,
                          bool again) const {
  if (outcome.status == 0) {
    // A proof names the processor; a run that cannot read its name leaves that out.
    const std::string wrong = wrong_result(outcome);
    // An old checkpoint that cannot be removed stays.
    const bool stays =
        std::string(kind.call) == "unlink" && contains(path, "/checkpoints/") &&
        wrong == "the result is another: unexpected: " + path.substr(path.rfind("checkpoints/"));
    const bool allowed =
        stays || (path == "/proc/cpuinfo" && wrong == "the result is another: differs: qkv_proof.json");
    if (wrong.empty() && kind.harmful && !path.empty() && !fs::is_directory(path))
      return {.kind = Verdict::Kind::harmless, .complaint = "expected exit status 1"};
    return {.kind = Verdict::Kind::harmless, .complaint = allowed ? std::string() : wrong};
  }
  Verdict verdict{.kind = Verdict::Kind::failed_cleanly,
                  .complaint = wrong_after_failure(kind, outcome, path)};
  if (!verdict.complaint.empty() || !again) return verdict;
  const Outcome next = start(workload_.again, {});
  if (next.status != 0) {
    verdict.complaint = "the repetition fails: " + next.err;
  } else if (const std::string wrong = wrong_result(next); !wrong.empty()) {
    verdict.complaint = "in the repetition: " + wrong;
  }
  return verdict;
}

Verdict Judge::run(const CallKind& kind, long index, bool again) const {
  prepare();
  if (kind.of_libraries) index = of_libraries_.at(static_cast<size_t>(index));
  const std::string fault = std::string(kind.call) + ":" + std::to_string(index) +
                            (kind.all_later ? "+" : "") + ":" + std::to_string(kind.error);
  const Outcome outcome = start(workload_.command, {.environment = {{"QKV_FAULT", fault}}});
  const std::string log = read_whole(log_), first_line = log.substr(0, log.find('\n'));
  const std::string before = std::string("failed ") + kind.call + " ";
  const bool reached = first_line.starts_with(before);
  const std::string path = reached ? first_line.substr(before.size()) : "";
  Verdict verdict = verdict_on(kind, outcome, path, again);
  if (!reached && verdict.kind == Verdict::Kind::harmless) verdict.kind = Verdict::Kind::not_reached;
  if (!verdict.complaint.empty()) {
    verdict.kind = Verdict::Kind::wrong;
    verdict.complaint =
        workload_.name + " " + fault + " " + path + ": " + verdict.complaint + "; stderr: " + outcome.err;
  }
  return verdict;
}

Verdict Judge::run_within(unsigned long bytes, bool again) const {
  prepare();
  const Outcome outcome = start(workload_.command, {.address_space = bytes});
  Verdict verdict = verdict_on(call_kind("malloc"), outcome, {}, again);
  if (!verdict.complaint.empty()) {
    verdict.kind = Verdict::Kind::wrong;
    verdict.complaint = workload_.name + " within " + std::to_string(bytes) + " bytes: " + verdict.complaint +
                        "; stderr: " + outcome.err;
  }
  return verdict;
}

}  // namespace qkv::faults
