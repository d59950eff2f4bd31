#include "qkv/train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "qkv/base/hash.h"
#include "qkv/base/log.h"

namespace qkv::train {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";
constexpr int kFormat = 1;

json to_json(const TrainState& state) {
  const TrainState::Window& window = state.window;
  return {{"steps", state.steps},
          {"micro_steps", state.micro_steps},
          {"epoch", state.cursor.epoch},
          {"batch", state.cursor.batch},
          {"seconds", state.seconds},
          {"window",
           {{"steps", window.steps},
            {"tokens", window.tokens},
            {"labels", window.labels},
            {"loss", window.loss},
            {"nll", window.nll},
            {"gradient_norm", window.gradient_norm},
            {"seconds", window.seconds}}},
          {"validation_due", state.validation_due},
          {"validations", state.validations},
          {"best_score", state.best_score ? json(*state.best_score) : json()},
          {"best_step", state.best_step},
          {"validations_since_best", state.validations_since_best},
          {"snapshots", state.snapshots}};
}

TrainState from_json(const json& j) {
  TrainState state;
  state.steps = j.at("steps");
  state.micro_steps = j.at("micro_steps");
  state.cursor = {.epoch = j.at("epoch"), .batch = j.at("batch")};
  state.seconds = j.at("seconds");
  const json& window = j.at("window");
  state.window = {.steps = window.at("steps"),
                  .tokens = window.at("tokens"),
                  .labels = window.at("labels"),
                  .loss = window.at("loss"),
                  .nll = window.at("nll"),
                  .gradient_norm = window.at("gradient_norm"),
                  .seconds = window.at("seconds")};
  state.validation_due = j.at("validation_due");
  state.validations = j.at("validations");
  if (!j.at("best_score").is_null()) state.best_score = j.at("best_score").get<double>();
  state.best_step = j.at("best_step");
  state.validations_since_best = j.at("validations_since_best");
  state.snapshots = j.at("snapshots").get<std::vector<int64_t>>();
  return state;
}

// Of all tensors in the order of their names.
std::string checksum(std::vector<io::NamedTensor> tensors) {
  std::ranges::sort(tensors, {}, &io::NamedTensor::name);
  Hash64 hash;
  for (const auto& [name, tensor] : tensors) {
    hash.add(name);
    hash.add(tensor.data(), tensor.bytes());
  }
  return std::to_string(hash.value());
}

// A rename is safe from a power cut once its folder is on disk.
void flush_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

Checkpoint open_checkpoint(const std::filesystem::path& path) {
  io::SafetensorsFile file(path);
  const auto found = file.metadata().find("qkv_training");
  if (found == file.metadata().end()) {
    throw DataError(
        concat(path.string(), ": expected a training checkpoint, found another safetensors file"));
  }
  try {
    const json content = json::parse(found->second);
    if (const int format = content.at("format"); format != kFormat) {
      throw DataError(concat(path.string(), ": expected checkpoint format ", kFormat, ", found ", format));
    }
    std::vector<io::NamedTensor> tensors;
    for (const std::string& name : file.names()) tensors.push_back({name, file.tensor(name)});
    if (checksum(std::move(tensors)) != content.at("checksum").get<std::string>()) {
      throw DataError(
          concat(path.string(), ": the numbers do not match their checksum: the file is damaged"));
    }
    Checkpoint result{from_json(content.at("state")), content.at("options").get<Fields>(), std::move(file)};
    return result;
  } catch (const json::exception& error) {
    throw DataError(concat(path.string(), ": malformed training state: ", error.what()));
  }
}

}  // namespace

std::vector<std::pair<int64_t, std::filesystem::path>> CheckpointFolder::list() const {
  std::vector<std::pair<int64_t, std::filesystem::path>> result;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    int64_t step = 0;
    const char* last = name.data() + name.size() - kSuffix.size();
    const auto [end, bad] = std::from_chars(name.data() + kPrefix.size(), last, step);
    if (bad == std::errc() && end == last) result.emplace_back(step, entry.path());
  }
  std::ranges::sort(result, std::greater<>());
  return result;
}

void CheckpointFolder::save(const TrainState& state, const Fields& fields,
                            const std::vector<io::NamedTensor>& tensors, int64_t keep) const {
  const json content = {
      {"format", kFormat}, {"checksum", checksum(tensors)}, {"state", to_json(state)}, {"options", fields}};
  make_writable_folder(folder_);
  const std::string digits = std::to_string(state.steps);
  const std::string zeros(digits.size() < 9 ? 9 - digits.size() : 0, '0');
  const std::filesystem::path path = folder_ / concat(kPrefix, zeros, digits, kSuffix);
  io::write_safetensors(path, tensors, {{"qkv_training", content.dump()}});
  flush_folder(folder_);
  int64_t kept = 0;
  for (const auto& [step, old] : list()) {
    // Ones of later steps are of a run that this one has gone back behind.
    const bool stays = step <= state.steps && kept < keep;
    if (stays) {
      ++kept;
      continue;
    }
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
      log_warning(concat("passing over a checkpoint: ", error.what()));
      reasons += concat("\n  ", error.what());
    }
  }
  if (!reasons.empty()) {
    throw DataError(concat(folder_.string(), ": expected a whole checkpoint, found none:", reasons));
  }
  return std::nullopt;
}

void CheckpointFolder::remove_partial_files() const {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    if (entry.path().filename().string().find(".partial-") == std::string::npos) continue;
    std::error_code ignored;
    std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace qkv::train
