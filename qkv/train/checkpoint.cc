#include "qkv/train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/hash.h"
#include "qkv/base/json.h"
#include "qkv/base/log.h"
#include "qkv/base/utf8.h"

namespace qkv::train {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";
constexpr int kFormat = 3;

json to_json(const TrainState& state) {
  const TrainState::Window& window = state.window;
  json curves = json::array();
  for (const CurveShare& curve : window.curves) curves.push_back({curve.name, curve.sum, curve.count});
  return {{"steps", state.steps},
          {"micro_steps", state.micro_steps},
          {"epoch", state.cursor.epoch},
          {"batch", state.cursor.batch},
          {"seconds", state.seconds},
          {"window",
           {{"steps", window.steps},
            {"units", window.units},
            {"gradient_norm", window.gradient_norm},
            {"seconds", window.seconds},
            {"curves", curves}}},
          {"validation_due", state.validation_due},
          {"validations", state.validations},
          {"validated_step", state.validated_step},
          {"best", state.best},
          {"best_step", state.best_step},
          {"validations_since_best", state.validations_since_best},
          {"snapshots", state.snapshots},
          {"logs", state.logs}};
}

int64_t count_of(const JsonValue& value) { return value.integer(0, std::numeric_limits<int64_t>::max()); }

TrainState from_json(const JsonValue& object) {
  TrainState state;
  state.steps = count_of(object["steps"]);
  state.micro_steps = count_of(object["micro_steps"]);
  state.cursor = {.epoch = count_of(object["epoch"]), .batch = count_of(object["batch"])};
  state.seconds = object["seconds"].number();
  const JsonValue window = object["window"];
  state.window = {.steps = count_of(window["steps"]),
                  .units = count_of(window["units"]),
                  .gradient_norm = window["gradient_norm"].number(),
                  .seconds = window["seconds"].number(),
                  .curves = {}};
  for (const JsonValue& curve : window["curves"].items()) {
    const std::vector<JsonValue> parts = curve.items();
    if (parts.size() != 3) curve.fail("[name, sum, count]");
    state.window.curves.push_back({parts[0].string(), parts[1].number(), parts[2].number()});
  }
  state.validation_due = object["validation_due"].boolean();
  state.validations = count_of(object["validations"]);
  // Earlier versions did not write it: the run then ends with a validation that it may have had.
  if (const auto step = object.find("validated_step")) state.validated_step = count_of(*step);
  object["best"].members(
      [&](std::string_view name, const JsonValue& value) { state.best.emplace(name, value.number()); });
  state.best_step = count_of(object["best_step"]);
  state.validations_since_best = count_of(object["validations_since_best"]);
  for (const JsonValue& step : object["snapshots"].items()) state.snapshots.push_back(count_of(step));
  object["logs"].members(
      [&](std::string_view name, const JsonValue& bytes) { state.logs.emplace(name, count_of(bytes)); });
  return state;
}

constexpr const char *kDescription = "qkv_training", *kChecksum = "qkv_checksum";
constexpr size_t kChecksumDigits = 16;
const std::string kNoChecksum(kChecksumDigits, '0');

// The position of the checksum's digits in a file's bytes; nothing if it has none. A header is JSON without
// spaces and with escaped quotes in strings, so only the key itself matches.
std::optional<size_t> find_checksum(std::string_view file) {
  constexpr size_t kLengthBytes = 8;
  if (file.size() < kLengthBytes) return std::nullopt;
  uint64_t header = 0;
  std::memcpy(&header, file.data(), kLengthBytes);
  const std::string key = concat('"', kChecksum, "\":\"");
  const size_t at = file.substr(0, kLengthBytes + std::min<uint64_t>(header, file.size())).find(key);
  if (at == std::string_view::npos || at + key.size() + kChecksumDigits > file.size()) return std::nullopt;
  return at + key.size();
}

// Adds the bytes of a mapped file, block by block, and frees each block's pages. A checkpoint is three times
// as large as the model, and would otherwise be the training's peak of memory.
void add_mapped(Hash64& hash, std::string_view bytes) {
  constexpr size_t kBlock = size_t{4} << 20;
  while (!bytes.empty()) {
    const std::string_view block = bytes.substr(0, kBlock);
    hash.add(block);
    release_mapped(block.data(), block.size());
    bytes.remove_prefix(block.size());
  }
}

// Of all bytes of a mapped file, with zeros in place of the checksum's digits, in hexadecimal.
std::string checksum(std::string_view file, size_t digits) {
  Hash64 hash;
  add_mapped(hash, file.substr(0, digits));
  hash.add(kNoChecksum);
  add_mapped(hash, file.substr(digits + kChecksumDigits));
  std::array<char, kChecksumDigits + 1> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash.value()));
  return text.data();
}

std::string_view bytes_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

[[noreturn]] void fail_foreign(const std::filesystem::path& path) {
  throw DataError(concat(path.string(), ": expected a training checkpoint of format ", kFormat,
                         ", found another safetensors file"));
}

void require_whole(const std::filesystem::path& path) {
  const MappedFile file(path, MapFor::reading);
  const std::optional<size_t> digits = find_checksum(bytes_of(file));
  if (!digits) fail_foreign(path);
  if (bytes_of(file).substr(*digits, kChecksumDigits) != checksum(bytes_of(file), *digits)) {
    throw DataError(concat(path.string(), ": its contents do not match their checksum: the file is damaged"));
  }
}

// The description in a checkpoint, if it has our format.
JsonValue description_of(const io::SafetensorsFile& file) {
  const auto found = file.metadata().find(kDescription);
  if (found == file.metadata().end()) fail_foreign(file.path());
  JsonValue content = parse_json(found->second, concat(file.path().string(), ": training state"));
  if (const int64_t format = content["format"].integer(); format != kFormat) {
    throw DataError(
        concat(file.path().string(), ": expected checkpoint format ", kFormat, ", found ", format));
  }
  return content;
}

}  // namespace

void require_text(const Fields& fields) {
  for (const auto& [name, value] : fields) {
    if (!valid_utf8(name) || !valid_utf8(value)) {
      throw UsageError(
          concat(name, ": expected UTF-8, as settings are stored as JSON, found a malformed character in '",
                 value, "'"));
    }
  }
}

void seal_checkpoint(const std::filesystem::path& path) {
  const MappedFile file(path, MapFor::reading);
  const std::optional<size_t> digits = find_checksum(bytes_of(file));
  if (!digits) throw DataError(concat(path.string(), ": expected a place for the checksum, found none"));
  const std::string text = checksum(bytes_of(file), *digits);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool sealed = descriptor >= 0 &&
                      ::pwrite(descriptor, text.data(), text.size(), static_cast<off_t>(*digits)) ==
                          static_cast<ssize_t>(text.size()) &&
                      ::fsync(descriptor) == 0;
  const std::string reason = std::generic_category().message(errno);
  if (descriptor >= 0) ::close(descriptor);
  if (!sealed) throw IoError(concat("cannot write ", path.string(), ": ", reason));
}

Checkpoint open_checkpoint(const std::filesystem::path& path) {
  io::SafetensorsFile file(path);
  const JsonValue content = description_of(file);
  require_whole(path);
  Fields fields;
  content["fields"].members(
      [&](std::string_view name, const JsonValue& value) { fields.emplace(name, value.string()); });
  return {from_json(content["state"]), std::move(fields), std::move(file)};
}

std::vector<std::pair<int64_t, std::filesystem::path>> CheckpointFolder::list() const {
  std::vector<std::pair<int64_t, std::filesystem::path>> result;
  // Errors must not be ignored: a run without checkpoints starts over and removes existing ones.
  for (const std::filesystem::path& path : files_in(folder_)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    int64_t step = 0;
    const char* last = name.data() + name.size() - kSuffix.size();
    const auto [end, bad] = std::from_chars(name.data() + kPrefix.size(), last, step);
    if (bad == std::errc() && end == last) result.emplace_back(step, path);
  }
  std::ranges::sort(result, std::greater<>());
  return result;
}

void CheckpointFolder::save(const TrainState& state, const Fields& fields,
                            const std::vector<io::NamedTensor>& tensors, int64_t keep) const {
  if (keep < 1) throw UsageError(concat("checkpoints: expected to keep at least 1, found ", keep));
  if (state.steps < 0)
    throw UsageError(concat("checkpoints: expected steps of 0 or more, found ", state.steps));
  require_text(fields);
  const std::string description =
      json{{"format", kFormat}, {"state", to_json(state)}, {"fields", fields}}.dump(
          -1, ' ', false, json::error_handler_t::replace);
  make_writable_folder(folder_);
  const std::string digits = std::to_string(state.steps);
  const std::string zeros(digits.size() < 9 ? 9 - digits.size() : 0, '0');
  const std::filesystem::path path = folder_ / concat(kPrefix, zeros, digits, kSuffix);
  const std::filesystem::path partial = concat(path.string(), ".partial-", ::getpid());
  try {
    io::write_safetensors(partial, tensors, {{kDescription, description}, {kChecksum, kNoChecksum}});
    seal_checkpoint(partial);
    if (::rename(partial.c_str(), path.c_str()) != 0) {
      throw IoError(concat("cannot replace ", path.string(), ": ", std::generic_category().message(errno)));
    }
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(partial, ignored);
    throw;
  }
  flush_folder(folder_);
  for (const auto& [step, later] : list()) {
    // Later steps belong to a run that was resumed from an earlier checkpoint.
    std::error_code ignored;
    if (step > state.steps) std::filesystem::remove(later, ignored);
  }
  remove_old(state.steps, keep);
}

void CheckpointFolder::remove_old(int64_t newest, int64_t keep) const {
  int64_t kept = 0;
  for (const auto& [step, old] : list()) {
    if (step > newest || kept++ < keep) continue;
    std::error_code ignored;
    std::filesystem::remove(old, ignored);
  }
}

std::optional<Checkpoint> CheckpointFolder::load_latest() const {
  std::string reasons;
  for (const auto& [step, path] : list()) {
    try {
      return open_checkpoint(path);
    } catch (const Error& error) {
      log_warning(concat("skipping a checkpoint: ", error.what()));
      reasons += concat("\n  ", error.what());
    }
  }
  if (!reasons.empty()) {
    throw DataError(concat(folder_.string(), ": expected a whole checkpoint, found none:", reasons));
  }
  return std::nullopt;
}

std::set<int64_t> CheckpointFolder::snapshots() const {
  std::set<int64_t> steps;
  for (const auto& [step, path] : list()) {
    try {
      const TrainState state = from_json(description_of(io::SafetensorsFile(path))["state"]);
      steps.insert(state.snapshots.begin(), state.snapshots.end());
    } catch (const Error&) {  // damaged, so it will not be resumed from
    }
  }
  return steps;
}

}  // namespace qkv::train
