#include "qkv/train/run_folder.h"

#include <sys/stat.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/hash.h"
#include "qkv/base/json.h"
#include "qkv/models/hub/adapters/adapter.h"

namespace qkv::train {
namespace {

constexpr const char* kRecord = "run.json";
constexpr int kSettingsFormat = 1;

std::string checksum(const Fields& fields) {
  Hash64 hash;
  hash.add(nlohmann::json(fields).dump());
  return std::to_string(hash.value());
}

}  // namespace

namespace {

void require_fitting(const std::filesystem::path& folder, IfRunExists existing) {
  if (std::filesystem::exists(folder) && !std::filesystem::is_directory(folder))
    throw IoError(concat(folder.string(), ": expected a folder, or none yet, found a file"));
  const bool checkpoints = !CheckpointFolder(folder / "checkpoints").empty();
  const bool model = std::filesystem::exists(folder / "config.json") || models::is_adapter(folder);
  if (existing == IfRunExists::refuse && (checkpoints || model)) {
    throw UsageError(concat(folder.string(),
                            ": holds a model or a training run already; resume it, replace it, "
                            "or choose another folder"));
  }
  if (existing == IfRunExists::resume && model && !checkpoints &&
      !std::filesystem::exists(folder / kRecord)) {
    throw UsageError(concat(folder.string(), ": expected checkpoints to resume from, found a model alone"));
  }
}

}  // namespace

void require_fitting_folder(const std::filesystem::path& folder, IfRunExists existing) {
  with_io_errors([&] { require_fitting(folder, existing); });
}

void RunFolder::require_there() const {
  struct stat found {};
  if (::stat(path_.c_str(), &found) == 0 && found.st_dev == device_ && found.st_ino == inode_) return;
  throw IoError(concat(path_.string(), ": expected the folder of this run, found ",
                       std::filesystem::exists(path_) ? "another" : "none", ": was it removed or renamed?"));
}

RunFolder::RunFolder(std::filesystem::path folder, IfRunExists existing) : path_(std::move(folder)) {
  require_fitting_folder(path_, existing);
  with_io_errors([&] {
    created_ = !std::filesystem::exists(path_);
    created_cache_ = !std::filesystem::exists(path_ / kRunCache);
  });
  make_writable_folder(path_);
  lock_ = std::make_unique<FolderLock>(path_);
  struct stat found {};
  if (::stat(path_.c_str(), &found) != 0)
    throw IoError(concat(path_.string(), ": expected a folder, found none: was it removed or renamed?"));
  device_ = found.st_dev;
  inode_ = found.st_ino;
  // Because of the lock, the processes that wrote these have ended.
  for (const char* part : {"", "cache", "checkpoints", "runs", "snapshots"})
    remove_partial_files(path_ / part);
  if (existing != IfRunExists::resume) return;
  read_record();
  if (settings_) return;
  checkpoint_ = CheckpointFolder(path_ / "checkpoints").load_latest();
  if (!checkpoint_) return;
  settings_ = checkpoint_->fields;
  steps_ = checkpoint_->state.steps;
}

std::optional<Checkpoint> RunFolder::take_checkpoint() { return std::exchange(checkpoint_, std::nullopt); }

void RunFolder::read_record() {
  const std::filesystem::path path = path_ / kRecord;
  if (!std::filesystem::exists(path)) return;
  const JsonValue record = parse_json(read_file(path), path.string());
  if (const int64_t format = record["format"].integer(); format != kSettingsFormat) {
    throw DataError(concat(path.string(), ": expected settings of a run of format ", kSettingsFormat,
                           ", found ", format));
  }
  Fields fields;
  record["fields"].members(
      [&](std::string_view name, const JsonValue& value) { fields.emplace(name, value.string()); });
  if (record["checksum"].string() != checksum(fields)) {
    throw DataError(concat(path.string(), ": its contents do not match their checksum: the file is damaged"));
  }
  settings_ = std::move(fields);
}

void RunFolder::write_record(const Fields& settings) const {
  require_text(settings);
  const nlohmann::json record{
      {"format", kSettingsFormat}, {"fields", settings}, {"checksum", checksum(settings)}};
  write_file_atomically(path_ / kRecord, record.dump(1) + "\n");
  flush_folder(path_);
}

void RunFolder::record(const Fields& settings) {
  earlier_record_.reset();
  if (std::filesystem::exists(path_ / kRecord)) earlier_record_ = read_file(path_ / kRecord);
  write_record(settings);
  recorded_ = settings;
}

void RunFolder::amend_record(const Fields& settings) {
  if (!recorded_) return;
  Fields amended = *recorded_;
  for (const auto& [name, value] : settings) amended[name] = value;
  if (amended == *recorded_) return;
  recorded_ = std::move(amended);
  write_record(*recorded_);
}

void RunFolder::forget_record() {
  std::error_code error;
  const bool removed = std::filesystem::remove(path_ / kRecord, error);
  recorded_.reset();
  // Beside checkpoints it would make the run start over.
  if (error) throw IoError(concat("cannot remove ", (path_ / kRecord).string(), ": ", error.message()));
  if (removed) flush_folder(path_);  // so that it does not reappear after a power cut
}

RunFolder::~RunFolder() {
  if (!lock_ || !withdraws_) return;  // moved from, or a run that has begun
  try {
    withdraw();
  } catch (const std::exception&) {  // what ended the run is reported
  }
}

void RunFolder::withdraw() {
  if (recorded_ && earlier_record_) {
    write_file_atomically(path_ / kRecord, *earlier_record_);
  } else if (recorded_) {
    forget_record();
  }
  std::error_code not_empty;
  if (created_cache_) std::filesystem::remove_all(path_ / kRunCache, not_empty);
  if (created_) std::filesystem::remove(path_, not_empty);
}

}  // namespace qkv::train
