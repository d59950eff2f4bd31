#include "qkv/train/job.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/stop.h"
#include "qkv/train/fields.h"
#include "qkv/train/ranks/node_share.h"
#include "qkv/train/ranks/replica.h"
#include "qkv/train/scratch_folder.h"
#include "qkv/train/tasks/start_folder.h"

namespace qkv::train {
namespace {

Fields settings_of(const Job& job) {
  Fields settings{{"task", job.task_name()}};
  for (const Field& field : job.fields()) settings[field.name] = field.value;
  return settings;
}

// The root's settings, and the files that its task would leave for a resumed run, for follow_job().
std::string handout(const Job& job, const Task& task) {
  const ScratchFolder folder(job.folder / concat("handout.partial-", ::getpid()));
  task.begin(folder.path());
  nlohmann::json message{{"settings", settings_of(job)},
                         {"cache", std::filesystem::absolute(job.folder / kRunCache).string()},
                         {"files", nlohmann::json::object()}};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (entry.is_regular_file())
      message["files"][entry.path().lexically_relative(folder.path()).string()] = read_file(entry.path());
  }
  std::string text;
  nlohmann::json::to_cbor(message, text);
  return text;
}

// Checks common to all tasks, before anything is read or written.
void check_start(const Job& job, const Communicator& ranks) {
  job.validate_ranges();
  job.options.require_batches_for(ranks.size());
  const std::filesystem::path from = settings_of(job)["model.from"];
  if (job.options.lora.rank != 0 && from.empty()) throw UsageError(lora_without_start(job.task_name()));
  std::error_code one_is_missing;
  if (!from.empty() && std::filesystem::equivalent(from, job.folder, one_is_missing)) {
    throw UsageError(concat("model.from ", from.string(),
                            ": expected another folder than that of the run, which replaces its model, "
                            "found the same"));
  }
}

// Job::node for a while.
class Shared {
 public:
  Shared(const Job& job, NodeShare& node) : job_(job) { job.node = &node; }
  ~Shared() { job_.node = nullptr; }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

 private:
  const Job& job_;
};

TrainResult run_checked(const Job& job, RunFolder folder, TrainObserver& observer,
                        const std::atomic<bool>* stop, Communicator& ranks) {
  std::unique_ptr<Task> task;
  NodeShare node(ranks);
  const Shared shared(job, node);
  try {
    if (!folder.resumes()) {
      folder.withdraw_unless_kept();
      folder.record(settings_of(job));
    }
    task = job.make_trained_task(folder.resumes(), observer, stop);
  } catch (const Stopped&) {
    ranks.broadcast(std::string());  // nothing to follow
    folder.keep();
    TrainResult result;
    result.reason = StopReason::requested;
    result.steps = folder.steps();
    return result;
  }
  if (ranks.size() > 1) ranks.broadcast(handout(job, *task));
  node.send();
  Trainer trainer(std::move(task), job.trainer_options(), std::move(folder), ranks);
  TrainResult result = trainer.run(observer, stop);
  trainer.end();
  return result;
}

bool is_size(const Field& field) {
  return field.name.starts_with(kModelFields) && !is_dropout_rate(field.name) && !field.value.empty() &&
         field.value.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

void refuse_given(const std::set<std::string>& given, std::initializer_list<const char*> names,
                  std::string_view why) {
  for (const char* name : names) {
    if (given.contains(name)) throw UsageError(concat(name, ": expected none ", why, ", found one"));
  }
}

bool Job::set_field(std::string_view name, std::string_view value) {
  Settings all;
  list(all);
  return all.set(name, value) || train::set_field(options, name, value);
}

std::vector<Field> Job::fields() const {
  std::vector<Field> all = task_fields();
  for (Field& field : train::fields(options)) all.push_back(std::move(field));
  return all;
}

std::vector<Field> Job::task_fields() const { return task_settings().list(); }

std::vector<FieldFlag> Job::flags() const {
  std::vector<FieldFlag> all = task_settings().flags();
  for (FieldFlag& flag : train::flags(options)) all.push_back(std::move(flag));
  return all;
}

void Job::validate_ranges() const { task_settings().validate(); }

Settings Job::task_settings() const {
  Settings all;
  const_cast<Job*>(this)->list(all);  // which is only read
  return all;
}

void Job::complete(const std::set<std::string>& given) {
  if (options.max_minutes > 0 && options.max_minutes <= kShortMinutes) {
    const std::vector<Field> all = fields();
    const bool sized = given.contains("preset") || std::ranges::any_of(all, [&](const Field& field) {
                         return given.contains(field.name) && is_size(field);
                       });
    for (const auto& [name, value] : short_run()) {
      if (!given.contains(name) && !(sized && std::string_view(name).starts_with(kModelFields)))
        set_field(name, value);
    }
  }
  if (!given.contains("schedule.warmup_steps") && !given.contains("schedule.fit_warmup"))
    options.schedule.fit_warmup = true;
  if (!given.contains("train.validate_every") && !given.contains("train.fit_validation"))
    options.fit_validation = has_validation();
  complete_task(given);
  if (options.lora.rank == 0)
    refuse_given(given, {"lora.alpha", "lora.targets", "lora.dtype"}, "without lora.rank");
  if (options.schedule.kind == ScheduleKind::paper)
    refuse_given(given, {"schedule.learning_rate"}, "with schedule.kind = paper, which has its own");
  if (!has_validation()) {
    const char* const why = "without validation data";
    if (options.validate_every > 0) refuse_given(given, {"train.validate_every"}, why);
    if (options.average_last > 0) refuse_given(given, {"train.average_last"}, why);
    refuse_given(given, {"train.best_by"}, why);
  }
  refuse_unused(given);
}

std::unique_ptr<Task> Job::make_trained_task(bool resumes, TrainObserver& observer,
                                             const std::atomic<bool>* stop) const {
  std::unique_ptr<Task> task = make_task(resumes, observer, stop);
  if (options.lora.rank == 0) return task;
  return std::make_unique<LoraTask>(std::move(task), options.lora, options.seed,
                                    node ? device_of_rank(options.device, node->ranks()) : options.device);
}

TrainResult run_job(const Job& job, TrainObserver& observer, const std::atomic<bool>* stop,
                    Communicator& ranks) {
  check_start(job, ranks);
  require_fitting_folder(job.folder, job.existing);
  job.check();
  return run_checked(job, RunFolder(job.folder, job.existing), observer, stop, ranks);
}

TrainResult run_job(const Job& job, RunFolder folder, TrainObserver& observer, const std::atomic<bool>* stop,
                    Communicator& ranks) {
  check_start(job, ranks);
  job.check();
  return run_checked(job, std::move(folder), observer, stop, ranks);
}

namespace {

// The task of a rank other than the root, from the root's handout(), which is written to the folder.
std::unique_ptr<Task> task_of(Job& job, const Fields& settings, const nlohmann::json& message,
                              const std::filesystem::path& folder) {
  for (const auto& [name, content] : message["files"].items()) {
    make_writable_folder((folder / name).parent_path());
    write_file_atomically(folder / name, content.get<std::string>());
  }
  const std::filesystem::path cache = message["cache"].get<std::string>();
  if (std::filesystem::is_directory(cache))
    std::filesystem::create_directory_symlink(cache, folder / kRunCache);
  for (const auto& [name, value] : settings) job.set_field(name, value);
  job.folder = folder;
  TrainObserver quiet;
  return job.make_trained_task(/*resumes=*/true, quiet, nullptr);
}

}  // namespace

void follow_job(Communicator& ranks,
                const std::function<std::unique_ptr<Job>(const std::string& task)>& make_job,
                const std::atomic<bool>* stop) {
  const std::string text = ranks.broadcast(std::string());
  if (text.empty()) return;
  const nlohmann::json message = nlohmann::json::from_cbor(text);
  const Fields settings = message["settings"];
  const std::unique_ptr<Job> job = make_job(settings.at("task"));
  NodeShare node(ranks);
  const Shared shared(*job, node);
  // The rank's own, as the run's may be on another machine. Other ranks of the node may map its files until
  // send() returns. It is gone before the steps, in which a failure of another rank ends the process without
  // destructors.
  std::optional<ScratchFolder> folder(std::filesystem::temp_directory_path() /
                                      concat("qkv-rank-", ranks.rank(), ".", ::getpid()));
  const std::unique_ptr<Task> task = task_of(*job, settings, message, folder->path());
  node.send();
  folder.reset();
  Replica(*task, job->trainer_options(), ranks, stop).follow();
}

}  // namespace qkv::train
