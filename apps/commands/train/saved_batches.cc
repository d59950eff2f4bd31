#include "apps/commands/train/saved_batches.h"

#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "qkv/base/error.h"

namespace qkv::apps {
namespace {

constexpr const char* kStep = "step";

}  // namespace

SavedBatches::SavedBatches(const std::filesystem::path& path, int64_t first_step)
    : path_(path), first_step_(first_step), out_(path) {}

void SavedBatches::add(nlohmann::json batch, int64_t step) {
  if (std::exchange(is_first_, false)) keep_earlier_steps();
  batch[kStep] = step;
  out_.add(batch.dump());
}

void SavedBatches::keep_earlier_steps() {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path_, error)) return;  // a pipe
  std::uintmax_t kept = 0;
  if (first_step_ > 1) {
    std::ifstream lines(path_);
    int64_t number = 0;
    // A line without its end was being written when the run was killed.
    for (std::string line; std::getline(lines, line) && !lines.eof(); kept += line.size() + 1) {
      ++number;
      const nlohmann::json batch = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!batch.is_object() || !batch.contains(kStep) || !batch[kStep].is_number_integer()) {
        throw DataError(concat(path_.string(), ": line ", number,
                               ": expected a batch of the run to resume with its step, found ",
                               batch.is_discarded() ? "no JSON" : "none"));
      }
      if (batch[kStep].get<int64_t>() >= first_step_) break;
    }
  }
  std::filesystem::resize_file(path_, kept, error);
  if (error) throw IoError(concat(path_.string(), ": cannot be shortened: ", error.message()));
}

}  // namespace qkv::apps
