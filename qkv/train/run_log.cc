#include "qkv/train/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/json.h"
#include "qkv/base/log.h"
#include "qkv/text/lines.h"

namespace qkv::train {
namespace {

using nlohmann::ordered_json;

constexpr const char *kEvents = "runs", *kLog = "log.jsonl", *kSpeed = "speed.jsonl", *kCurve = "curve.svg";

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) {
  throw IoError(concat("cannot ", what, " ", path.string(), ": ", std::generic_category().message(errno)));
}

// Paths of the files in a folder that grow.
std::vector<std::filesystem::path> growing_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> result;
  for (const char* name : {kLog, kSpeed}) {
    if (std::filesystem::exists(folder / name)) result.emplace_back(name);
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder / kEvents, error))
    result.push_back(std::filesystem::path(kEvents) / entry.path().filename());
  return result;
}

// A machine crash may have lost the end: keeps whole lines.
void keep_whole_lines(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  std::filesystem::resize_file(path, content.rfind('\n') + 1);
}

void cut_back(const std::filesystem::path& folder, const RunLog::Lengths& lengths, int64_t step) {
  for (const std::filesystem::path& name : growing_files(folder)) {
    const auto known = lengths.find(name.string());
    if (known == lengths.end()) std::filesystem::remove(folder / name);
  }
  for (const auto& [name, length] : lengths) {
    if (length < 0) throw DataError(concat(name, ": expected a length of 0 bytes or more, found ", length));
    const std::filesystem::path path = folder / name;
    std::error_code missing;
    const auto found = static_cast<int64_t>(std::filesystem::file_size(path, missing));
    if (!missing && found >= length) {
      if (found > length) std::filesystem::resize_file(path, static_cast<uintmax_t>(length));
      continue;
    }
    log_warning(concat(path.string(), ": expected ", length, " bytes, as at step ", step, ", found ",
                       missing ? "no file" : concat(found), "; points of the curves are missing"));
    if (!missing && path.extension() == ".jsonl") keep_whole_lines(path);
  }
}

void flush_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail("open", path);
  const bool flushed = ::fsync(descriptor) == 0;
  if (!flushed) {
    ::close(descriptor);
    fail("flush", path);
  }
  ::close(descriptor);
}

}  // namespace

JsonLines::JsonLines(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) fail("write", path_);
}

JsonLines::~JsonLines() { ::close(descriptor_); }

void JsonLines::add(const std::string& object) {
  const std::string line = object + '\n';
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t written = ::write(descriptor_, line.data() + done, line.size() - done);
    if (written < 0 && errno != EINTR) fail("write", path_);
    if (written > 0) done += static_cast<size_t>(written);
  }
}

void JsonLines::flush() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP) fail("flush", path_);
  flush_folder(path_.has_parent_path() ? path_.parent_path() : ".");
}

RunLog::RunLog(const std::filesystem::path& folder) : folder_(folder) {
  with_io_errors([&] {
    for (const char* name : {kEvents, kLog, kSpeed, kCurve}) std::filesystem::remove_all(folder_ / name);
  });
  open(std::nullopt);
}

RunLog::RunLog(const std::filesystem::path& folder, const Lengths& lengths, int64_t step) : folder_(folder) {
  with_io_errors([&] { cut_back(folder_, lengths, step); });
  read_curves();
  open(step + 1);
}

void RunLog::open(std::optional<int64_t> resume_step) {
  events_ = std::make_unique<io::EventWriter>(folder_ / kEvents, resume_step);
  log_ = std::make_unique<JsonLines>(folder_ / kLog);
  speed_ = std::make_unique<JsonLines>(folder_ / kSpeed);
}

void RunLog::read_curves() {
  const std::filesystem::path path = folder_ / kLog;
  if (!std::filesystem::exists(path)) return;
  text::LineReader reader(path);
  std::string text;
  try {
    while (reader.next(text)) {
      const JsonValue line = parse_json(text, path.string());
      for (const auto& [key, curve] : {std::pair("train_loss", &train_), std::pair("valid_loss", &valid_)}) {
        if (const auto loss = line.find(key))
          curve->points.emplace_back(line["step"].integer(), loss->number());
      }
    }
  } catch (const DataError& error) {  // training continues
    log_warning(concat(error.what(), "; ", kCurve, " begins after it"));
  }
}

void RunLog::add(const StepReport& report, const std::string& units) {
  for (const auto& [name, value] : report.curves) events_->scalar("train/" + name, value, report.step);
  events_->scalar("train/learning_rate", report.learning_rate, report.step);
  events_->scalar("train/gradient_norm", report.gradient_norm, report.step);
  events_->scalar(concat("train/", units, "_per_second"), report.units_per_second, report.step);
  ordered_json line{{"step", report.step}, {"epoch", report.epoch}};
  for (const auto& [name, value] : report.curves) line["train_" + name] = value;
  line["learning_rate"] = report.learning_rate;
  line["gradient_norm"] = report.gradient_norm;
  log_->add(line.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  ordered_json speed{
      {"step", report.step}, {"seconds", report.seconds}, {units + "_per_second", report.units_per_second}};
  if (report.exchange) {
    const auto steps = static_cast<double>(report.exchange->steps);
    speed["bytes_sent"] = report.exchange->bytes_sent / report.exchange->steps;
    speed["gradients_seconds"] = report.exchange->gradients / steps;
    speed["gradients_hidden_seconds"] = report.exchange->gradients_hidden / steps;
    speed["weights_seconds"] = report.exchange->weights / steps;
    speed["weights_hidden_seconds"] = report.exchange->weights_hidden / steps;
    speed["waited_seconds"] = report.exchange->waited / steps;
  }
  speed_->add(speed.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  train_.points.emplace_back(report.step, report.loss);
}

void RunLog::add(const ValidationReport& report) {
  const Evaluation& found = report.evaluation;
  events_->scalar("valid/loss", found.loss, report.step);
  for (const auto& [name, one] : found.metrics) events_->scalar("valid/" + name, one, report.step);
  ordered_json line{{"step", report.step}, {"epoch", report.epoch}, {"valid_loss", found.loss}};
  for (const auto& [name, one] : found.metrics) line["valid_" + name] = one;
  if (!found.extent.empty()) line["extent"] = found.extent;
  line["best"] = report.best;
  if (!found.samples.empty()) line["samples"] = found.samples;
  log_->add(line.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  speed_->add(ordered_json{
      {"step", report.step}, {"seconds", report.run_seconds}, {"validation_seconds", report.seconds}}
                  .dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  valid_.points.emplace_back(report.step, found.loss);
}

void RunLog::flush() {
  events_->flush();
  write_file_atomically(folder_ / kCurve,
                        curves_svg("Loss in training and validation", std::array{train_, valid_}));
}

RunLog::Lengths RunLog::save() {
  flush();
  Lengths lengths;
  with_io_errors([&] {
    for (const std::filesystem::path& name : growing_files(folder_)) {
      flush_file(folder_ / name);
      lengths[name.string()] = static_cast<int64_t>(std::filesystem::file_size(folder_ / name));
    }
  });
  return lengths;
}

}  // namespace qkv::train
