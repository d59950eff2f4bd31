// qkv train

#include <algorithm>
#include <cctype>
#include <csignal>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "apps/cli/field_options.h"
#include "apps/cli/ranks.h"
#include "apps/cli/suggest.h"
#include "apps/command.h"
#include "apps/commands/train/saved_batches.h"
#include "apps/outlook.h"
#include "apps/profile_report.h"
#include "apps/progress.h"
#include "apps/stop.h"
#include "apps/terminal.h"
#include "apps/training_task.h"
#include "qkv/base/error.h"
#include "qkv/train/given_settings.h"

namespace qkv::apps {
namespace {

struct TrainArguments {
  const TrainingTask* task = nullptr;  // none: as in the run to resume
  std::filesystem::path folder;
  std::filesystem::path repeated;      // the run to repeat
  std::optional<train::Fields> saved;  // its settings
  std::optional<std::string> preset;
  std::vector<std::string> sets;
  std::map<std::string, std::string> fields;  // from the flags
  bool resume = false, must_resume = false, overwrite = false;
  bool json = false, quiet = false, profile = false;
  double rank_timeout = 30;
};

// "; did you mean 'train.seed'?", or nothing. A name may lack its namespace.
std::string suggested_field(const std::string& name, const std::vector<std::string>& all) {
  if (name.find('.') != std::string::npos) return suggestion(name, all);
  std::vector<std::string> short_names;
  for (const std::string& field : all) short_names.push_back(field.substr(field.rfind('.') + 1));
  const std::optional<std::string> meant = nearest(name, short_names);
  if (!meant) return "";
  for (size_t i = 0; i < all.size(); ++i) {
    if (short_names[i] == *meant) return concat("; did you mean '", all[i], "'?");
  }
  return "";
}

// The field of --set: a full name, or the part after the namespace if it is unambiguous.
std::string full_name(const train::Job& job, const std::string& name) {
  const std::vector<std::string> same = train::settings_named(job, name);
  if (same.size() == 1) return same[0];
  std::vector<std::string> all;
  for (const train::Field& field : job.fields()) all.push_back(field.name);
  throw UsageError(concat("--set ", name, ": expected one of ", join(same.empty() ? all : same, ", "),
                          ", found \"", name, "\"", same.empty() ? suggested_field(name, all) : ""));
}

train::GivenSettings given_settings(const train::Job& job, const TrainArguments& arguments) {
  train::GivenSettings given{.preset = arguments.preset,
                             .fields = {arguments.fields.begin(), arguments.fields.end()}};
  for (const std::string& set : arguments.sets) {
    const size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(concat("--set: expected FIELD=VALUE, found \"", set, "\""));
    given.fields.emplace_back(full_name(job, set.substr(0, equals)), set.substr(equals + 1));
  }
  return given;
}

// A library message with the command line's names for fields that have one.
std::string with_flags(const train::Job& job, std::string message) {
  if (message.starts_with("--set")) return message;  // lists fields
  const auto replace = [&message](const std::string& name, const std::string& by) {
    const auto continues = [&](size_t at) {
      return at < message.size() &&
             (std::isalnum(static_cast<unsigned char>(message[at])) || message[at] == '_');
    };
    for (size_t at = 0; (at = message.find(name, at)) != std::string::npos;) {
      const size_t end = at + name.size();
      if (continues(end)) {
        at = end;
      } else {
        message.replace(at, name.size(), by);
        at += by.size();
      }
    }
  };
  for (const train::FieldFlag& flag : job.flags()) replace(flag.field, flag.flag);
  replace("resume it, replace it, or choose another folder",
          "--resume continues it, --overwrite starts a new run in its place");
  if (message.starts_with("resume: ") || message.starts_with("preset: ")) message = "--" + message;
  return message;
}

// Shows progress, and on request records batches and profiles operations.
class Watcher : public TrainProgress {
 public:
  explicit Watcher(const TrainArguments& arguments) : TrainProgress(arguments.quiet), arguments_(arguments) {}

  void on_start(const train::StartReport& report) override {
    TrainProgress::on_start(report);
    step_ = report.resumed_from + 1;
    if (!save_batches_.empty()) batches_.emplace(save_batches_, step_);
    if (!arguments_.profile) return;
    reset_allocator_peak();
    profile_.emplace();
  }

  // `path`: of the file; empty: none.
  void save_batches(std::filesystem::path path) { save_batches_ = std::move(path); }

  // Nothing can be refused any more: the file may be changed.
  void on_batch(const train::Batch& batch) override {
    if (batches_) batches_->add(arguments_.task->batch_json(batch), step_);
  }
  void before_checkpoint(int64_t /*step*/) override {
    if (batches_) batches_->flush();
  }
  void on_step(const train::StepReport& report) override {
    TrainProgress::on_step(report);
    step_ = report.step + 1;
  }

  // The profile so far; ends profiling.
  std::optional<ProfileReport> take_profile() {
    std::optional<ProfileReport> report;
    if (profile_) report.emplace(*profile_);
    profile_.reset();
    return report;
  }

 private:
  const TrainArguments& arguments_;
  std::filesystem::path save_batches_;
  std::optional<SavedBatches> batches_;
  int64_t step_ = 1;  // of the next batch
  std::optional<Profile> profile_;
};

nlohmann::ordered_json json_of(const std::filesystem::path& folder, const train::TrainResult& result) {
  nlohmann::ordered_json out = {{"folder", folder.string()},
                                {"stopped_because", train::describe(result.reason)},
                                {"interrupted", result.reason == train::StopReason::requested},
                                {"steps", result.steps},
                                {"epochs", result.epochs},
                                {"seconds", result.seconds},
                                {"train_loss", nullptr},
                                {"best_step", result.best_step}};
  if (result.train_loss) out["train_loss"] = *result.train_loss;  // null if no step was made
  if (result.schedule_steps > 0) out["schedule_steps"] = result.schedule_steps;
  if (!result.best.empty()) {
    out["best"] = {{"by", result.best_by.name}};
    for (const auto& [name, value] : result.best) out["best"][name] = value;
  }
  if (!result.validations.empty()) {
    const train::ValidationReport& last = result.validations.back();
    out["validation"] = {{"step", last.step}, {"loss", last.evaluation.loss}};
    for (const auto& [name, value] : last.evaluation.metrics) out["validation"][name] = value;
    if (!last.evaluation.extent.empty()) out["validation"]["extent"] = last.evaluation.extent;
  }
  return out;
}

// "; BLEU of 120 of 1014 sentences", if the best weights have that.
std::string extent_of(const train::TrainResult& result) {
  const auto best = std::ranges::find(result.validations, result.best_step, &train::ValidationReport::step);
  return best == result.validations.end() || best->evaluation.extent.empty() ? ""
                                                                             : "; " + best->evaluation.extent;
}

// Trains; messages have the command line's names of settings instead of the library's.
train::TrainResult run(TrainArguments& arguments, std::optional<train::RunFolder> held, Watcher& progress,
                       const StopSignals& stop, Communicator& ranks) {
  const std::unique_ptr<train::Job> job = arguments.task->make_job();
  job->folder = arguments.folder;
  job->existing = arguments.resume      ? train::IfRunExists::resume
                  : arguments.overwrite ? train::IfRunExists::replace
                                        : train::IfRunExists::refuse;
  try {
    train::fill(*job, arguments.task->preset, held ? held->settings() : arguments.saved,
                given_settings(*job, arguments));
    progress.save_batches(job->options.save_batches);
    return held ? train::run_job(*job, std::move(*held), progress, stop.flag(), ranks)
                : train::run_job(*job, progress, stop.flag(), ranks);
  } catch (const UsageError& error) {
    throw UsageError(with_flags(*job, error.what()));
  } catch (const IoError& error) {
    const std::string message = error.what();
    if (!message.starts_with("data.")) throw;
    throw IoError(with_flags(*job, message));
  }
}

// Locks the folder of the run to resume and sets the task; nothing if there is none.
std::optional<train::RunFolder> hold(TrainArguments& arguments) {
  std::optional<train::RunFolder> held;
  if (arguments.resume && std::filesystem::is_directory(arguments.folder))
    held.emplace(arguments.folder, train::IfRunExists::resume);
  if (!held || !held->settings()) {
    if (!arguments.must_resume) return held;
    throw UsageError(
        concat("--resume ", arguments.folder.string(), ": expected a training run, found no checkpoint"));
  }
  const auto name = held->settings()->find("task");
  const TrainingTask& task =
      task_named(name == held->settings()->end() ? "" : name->second, arguments.folder);
  if (arguments.task && arguments.task != &task) {
    throw UsageError(concat(arguments.folder.string(), ": expected a run of ", arguments.task->name,
                            ", found one of ", task.name));
  }
  arguments.task = &task;
  return held;
}

// The settings of a run, and its steps as the limit.
void repeat(TrainArguments& arguments) {
  const auto last = train::CheckpointFolder(arguments.repeated / "checkpoints").load_latest();
  if (!last) {
    throw UsageError(
        concat("--repeat ", arguments.repeated.string(), ": expected a training run, found no checkpoint"));
  }
  if (std::filesystem::exists(arguments.folder) &&
      std::filesystem::equivalent(arguments.folder, arguments.repeated)) {
    throw UsageError(concat("--repeat ", arguments.repeated.string(),
                            ": expected another folder as --out, found the same"));
  }
  arguments.task = &task_named(last->fields.at("task"), arguments.repeated);
  arguments.saved = last->fields;
  arguments.saved->erase("train.save_batches");  // of the repeated run
  if (std::ranges::none_of(arguments.fields, [](const auto& field) { return train::is_limit(field.first); }))
    arguments.fields["train.max_steps"] = std::to_string(last->state.steps);
}

// Returns whether it was stopped.
bool train_as_root(TrainArguments& arguments, const StopSignals& stop, Communicator& ranks) {
  std::optional<train::RunFolder> held = hold(arguments);
  Watcher progress(arguments);
  const train::TrainResult result = run(arguments, std::move(held), progress, stop, ranks);
  const std::optional<ProfileReport> profile = progress.take_profile();

  const bool stopped = result.reason == train::StopReason::requested;
  const std::string folder = arguments.folder.string();
  if (stopped) {
    progress.say(concat(result.steps > 0 ? concat("stopped at step ", result.steps, " and saved")
                                         : std::string("stopped before the first step"),
                        "; continue with: qkv train --resume ", folder));
  } else {
    const std::string early =
        result.reason == train::StopReason::max_minutes && result.steps < result.schedule_steps
            ? concat(" before the schedule's last step, ", result.schedule_steps)
            : "";
    progress.say(concat("done after ", result.steps, result.steps == 1 ? " step in " : " steps in ",
                        clock_time(result.seconds), ": ", train::describe(result.reason), early,
                        "; the model of step ", result.best_step, " is in ", folder, extent_of(result)));
    if (const std::string more = outlook(result); !more.empty()) progress.say(more);
  }
  if (arguments.json) {
    nlohmann::ordered_json out = json_of(arguments.folder, result);
    if (profile) out["profile"] = profile->json();
    std::cout << out.dump(2) << std::endl;
  } else if (profile) {
    std::cout << profile->text(Style::for_stdout()) << std::flush;
  }
  return stopped;
}

void train_command(TrainArguments& arguments) {
  if (arguments.resume && arguments.overwrite)
    throw UsageError("--resume and --overwrite: expected at most one of them, found both");
  const StopSignals stop;
  bool stopped = false;
  int status = 0;  // of the signal
  with_ranks(arguments.rank_timeout, [&](Communicator& ranks) {
    if (ranks.is_root()) {
      stopped = train_as_root(arguments, stop, ranks);
    } else {
      train::follow_job(
          ranks, [](const std::string& task) { return task_named(task, "").make_job(); }, stop.flag());
    }
    // It may have been another rank's.
    for (const std::string& one : ranks.all_gather(std::to_string(*stop.flag() ? stop.exit_status() : 0))) {
      if (status == 0) status = std::stoi(one);
    }
  });
  if (stopped) end_at_once(status);
}

using Arguments = std::shared_ptr<TrainArguments>;
void add_flags(Command& command, const Arguments& arguments, const std::vector<train::FieldFlag>& flags,
               bool on_resume) {
  for (const train::FieldFlag& flag : flags) {
    if (flag.on_resume != on_resume || command.has_option(flag.flag)) continue;  // tasks may share one
    const auto take = [arguments, field = flag.field](const std::string& value) {
      arguments->fields[field] = value;
    };
    const std::string help = wrapped(flag.help);
    if (flag.unit.empty()) {
      command.add_flag_function(
          flag.flag, [take](int64_t) { take("true"); }, help);
      continue;
    }
    Option* option = command.add_text(flag.flag, take, help)->type_name(flag.unit);
    if (const std::vector<std::string> choices = choices_of(flag.unit); !choices.empty())
      option->check(one_of(choices));
    if (!flag.value.empty() && help.find("(default: ") == std::string::npos) option->default_str(flag.value);
  }
}

// The options that may change on resuming.
void add_run_options(Command& command, const Arguments& arguments,
                     const std::vector<train::FieldFlag>& flags) {
  add_flags(command, arguments, flags, true);
  add_threads_option(command);
  add_option(
      command, "--rank-timeout", arguments->rank_timeout, "SECONDS",
      "Under mpirun or srun: seconds without a sign of life after which a rank counts as lost and all\n"
      "processes end");
  command.add_flag("--profile", arguments->profile,
                   "Print time and memory by operation at the end; with --json as an object");
  command.add_flag("--json", arguments->json, "Print the result as one JSON object");
  command.add_flag("--quiet", arguments->quiet, "Do not show progress on stderr");
}

std::vector<train::FieldFlag> flags_of(const TrainingTask& task) {
  const std::unique_ptr<train::Job> job = task.make_job();
  job->use_preset(task.preset);
  return job->flags();
}

// `check_form` throws UsageError for options of `qkv train` that no task follows.
void add_task(Command& train, const TrainingTask& task, const std::function<void()>& check_form) {
  const auto arguments = std::make_shared<TrainArguments>();
  arguments->task = &task;
  const std::vector<train::FieldFlag> flags = flags_of(task);

  Command* command = train.add_subcommand(task.name, task.description);
  command->footer(task.footer);
  add_option(*command, "--out", arguments->folder, "DIR", "Folder for model, checkpoints and curves")
      ->required();
  command->add_flag(
      "--resume", arguments->resume,
      "Continue from DIR's newest checkpoint, or start if there is none; options need not be repeated");
  command->add_flag("--overwrite", arguments->overwrite,
                    "Start a new run even if DIR holds a model or a run");
  if (!task.presets.empty()) {
    add_option(*command, "--preset", arguments->preset, join(task.presets, "|"), "Model size")
        ->check(one_of(task.presets))
        ->default_str(task.preset);
  }
  add_option(*command, "--set", arguments->sets, "FIELD=VALUE",
             "Any field of model, training or optimizer, such as model.d_ff=512; may be given several\n"
             "times. An unknown name lists all (default: none)");
  add_flags(*command, arguments, flags, false);
  add_run_options(*command, arguments, flags);
  command->callback([arguments, check_form] {
    check_form();
    train_command(*arguments);
  });
}

std::string task_names() {
  std::string names;
  for (const TrainingTask& task : training_tasks()) names += (names.empty() ? "" : ", ") + task.name;
  return names;
}

}  // namespace

void add_train(Command& app) {
  Command* train = app.add_subcommand("train", "Train a model");
  train->footer(
      "Example:\n  qkv train translation --help\n  qkv train --resume model\n  qkv train --repeat model "
      "--out again");
  train->require_subcommand(0, 1);
  const auto arguments = std::make_shared<TrainArguments>();
  Option* resumed = add_option(*train, "--resume", arguments->folder, "DIR",
                               "Continue the run in this folder with its settings (default: none)");
  Option* repeated =
      add_option(*train, "--repeat", arguments->repeated, "DIR",
                 "Train again as the run in this folder did, for as many steps and to the same\n"
                 "bits, into the folder of --out (default: none)");
  Option* out =
      add_option(*train, "--out", arguments->folder, "DIR", "Folder of the repeated run (default: none)");
  repeated->excludes(resumed);
  add_run_options(*train, arguments, flags_of(training_tasks().front()));
  for (const TrainingTask& task : training_tasks()) {
    add_flags(*train, arguments, flags_of(task), true);
    add_task(*train, task, [resumed, repeated, out] {
      for (const auto& [option, name] :
           {std::pair(resumed, "--resume"), {repeated, "--repeat"}, {out, "--out"}}) {
        if (option->count() > 0)
          throw UsageError(concat("train ", name, " DIR: expected no task after it, found one"));
      }
    });
  }
  train->callback([train, arguments, resumed, repeated, out] {
    if (!train->given_subcommand().empty()) return;
    if (repeated->count() != out->count()) {
      throw UsageError(concat("train: expected --repeat DIR and --out DIR together, found ",
                              out->count() > 0 ? "--out" : "--repeat", " alone"));
    }
    if (repeated->count() > 0) {
      repeat(*arguments);
    } else if (resumed->count() > 0) {
      arguments->resume = arguments->must_resume = true;
    } else {
      throw UsageError(concat("train: expected a task (", task_names(),
                              "), --resume DIR or --repeat DIR, found none of them; see qkv train --help"));
    }
    train_command(*arguments);
  });
}

}  // namespace qkv::apps
