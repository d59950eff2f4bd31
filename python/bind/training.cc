// qkv.train(): the training runs of `qkv train TASK`.

#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "python/bind/common.h"
#include "qkv/train/given_settings.h"
#include "qkv/train/tasks/answers/answer.h"
#include "qkv/train/tasks/embed/embed.h"
#include "qkv/train/tasks/image/image.h"
#include "qkv/train/tasks/labels/classify.h"
#include "qkv/train/tasks/labels/tag.h"
#include "qkv/train/tasks/lm/lm.h"
#include "qkv/train/tasks/pretrain_bert/pretrain_bert.h"
#include "qkv/train/tasks/translation/translation.h"

namespace qkv::python {
namespace {

struct TrainingTask {
  const char* name;
  const char* preset;  // the default
  std::unique_ptr<train::Job> (*make)();
};

template <class Job>
std::unique_ptr<train::Job> make() {
  return std::make_unique<Job>();
}

constexpr std::array<TrainingTask, 8> kTasks{{{"translation", "small", make<train::TranslationJob>},
                                              {"lm", "mini", make<train::LmJob>},
                                              {"classify", "mini", make<train::ClassifyJob>},
                                              {"tag", "mini", make<train::TagJob>},
                                              {"answer", "mini", make<train::AnswerJob>},
                                              {"embed", "", make<train::EmbedJob>},
                                              {"pretrain-bert", "mini", make<train::PretrainBertJob>},
                                              {"image", "mini", make<train::ImageJob>}}};

const TrainingTask& task_named(const std::string& name) {
  std::string known;
  for (const TrainingTask& task : kTasks) {
    if (name == task.name) return task;
    known += concat(known.empty() ? "" : ", ", task.name);
  }
  throw UsageError(concat("task: expected one of ", known, ", found '", name, "'"));
}

std::string text_of(const std::string& name, nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value) ? "true" : "false";
  if (nb::isinstance<nb::str>(value) || nb::isinstance<nb::int_>(value) ||
      nb::isinstance<nb::float_>(value) || nb::hasattr(value, "__fspath__"))
    return nb::str(value).c_str();
  throw UsageError(
      concat(name, ": expected a text, a number or True or False, found ", nb::repr(value).c_str()));
}

// The full name of a setting: of an option of `qkv train` ("batch_tokens"), or the setting itself, whose
// namespace may be missing where one has it ("d_model").
std::string setting_named(const train::Job& job, const std::string& name) {
  std::string flag = concat("--", name);
  std::ranges::replace(flag, '_', '-');
  for (const train::FieldFlag& one : job.flags()) {
    if (one.flag == flag) return one.field;
  }
  const std::vector<std::string> same = train::settings_named(job, name);
  if (same.size() == 1) return same[0];
  std::string known;
  for (const train::Field& field : job.fields()) {
    if (same.empty() || std::ranges::find(same, field.name) != same.end())
      known += concat(known.empty() ? "" : ", ", field.name);
  }
  throw UsageError(concat("train: expected one of the settings ", known, ", found '", name, "'"));
}

// Calls Python's functions, from the thread that trains. One that returns False, or raises, ends the run,
// which is saved.
class Observer : public train::TrainObserver {
 public:
  Observer(nb::object on_step, nb::object on_validation, std::atomic<bool>& stop)
      : on_step_(std::move(on_step)), on_validation_(std::move(on_validation)), stop_(stop) {}

  void on_step(const train::StepReport& report) override {
    if (on_step_.is_none()) return;
    call(on_step_, [&] {
      nb::dict about;
      about["step"] = report.step;
      about["epoch"] = report.epoch;
      about["epoch_progress"] = report.epoch_progress;
      for (const auto& [name, value] : report.curves) about[name.c_str()] = value;
      about["loss"] = report.loss;
      about["gradient_norm"] = report.gradient_norm;
      about["learning_rate"] = report.learning_rate;
      about["units_per_second"] = report.units_per_second;
      about["seconds"] = report.seconds;
      about["seconds_left"] = report.seconds_left ? nb::object(nb::float_(*report.seconds_left)) : nb::none();
      return about;
    });
  }
  void on_validation(const train::ValidationReport& report) override {
    if (on_validation_.is_none()) return;
    call(on_validation_, [&] {
      nb::dict about = evaluation(report);
      about["epoch"] = report.epoch;
      about["best"] = report.best;
      about["samples"] = nb::cast(report.evaluation.samples, nb::rv_policy::copy);
      return about;
    });
  }

  static nb::dict evaluation(const train::ValidationReport& report) {
    nb::dict about;
    about["step"] = report.step;
    about["loss"] = report.evaluation.loss;
    for (const auto& [name, value] : report.evaluation.metrics) about[name.c_str()] = value;
    if (!report.evaluation.extent.empty()) about["extent"] = report.evaluation.extent;
    return about;
  }

  // What a function raised.
  std::exception_ptr raised() const { return raised_; }

 private:
  template <class Report>
  void call(const nb::object& function, const Report& report) {
    if (raised_) return;
    const nb::gil_scoped_acquire acquire;
    try {
      const nb::object wanted = function(report());
      if (wanted.ptr() == Py_False) stop_ = true;
    } catch (...) {
      raised_ = std::current_exception();
      stop_ = true;
    }
  }

  nb::object on_step_, on_validation_;
  std::atomic<bool>& stop_;
  std::exception_ptr raised_;
};

nb::dict dict_of(const std::string& folder, const train::TrainResult& result) {
  nb::dict about;
  about["folder"] = folder;
  about["stopped_because"] = train::describe(result.reason);
  about["interrupted"] = result.reason == train::StopReason::requested;
  about["steps"] = result.steps;
  about["epochs"] = result.epochs;
  about["seconds"] = result.seconds;
  about["train_loss"] = result.train_loss ? nb::object(nb::float_(*result.train_loss)) : nb::none();
  about["best_step"] = result.best_step;
  if (result.schedule_steps > 0) about["schedule_steps"] = result.schedule_steps;
  if (!result.best.empty()) {
    nb::dict best;
    best["by"] = result.best_by.name;
    for (const auto& [name, value] : result.best) best[name.c_str()] = value;
    about["best"] = best;
  }
  if (!result.validations.empty()) about["validation"] = Observer::evaluation(result.validations.back());
  return about;
}

nb::dict train_task(const std::string& name, const std::filesystem::path& folder,
                    const std::optional<std::string>& preset, bool resume, bool overwrite, nb::object on_step,
                    nb::object on_validation, const nb::dict& settings) {
  if (resume && overwrite) throw UsageError("resume and overwrite: expected at most one of them, found both");
  const TrainingTask& task = task_named(name);
  const std::unique_ptr<train::Job> job = task.make();
  job->folder = folder;
  job->existing = resume      ? train::IfRunExists::resume
                  : overwrite ? train::IfRunExists::replace
                              : train::IfRunExists::refuse;
  std::optional<train::RunFolder> held;
  if (resume && std::filesystem::is_directory(folder)) held.emplace(folder, train::IfRunExists::resume);
  train::GivenSettings given{.preset = preset, .fields = {}};
  for (const auto& [key, value] : settings) {
    const auto setting = nb::cast<std::string>(key);
    given.fields.emplace_back(setting_named(*job, setting), text_of(setting, value));
  }
  train::fill(*job, task.preset, held ? held->settings() : std::nullopt, given);

  std::atomic<bool> stop = false;
  Observer observer(std::move(on_step), std::move(on_validation), stop);
  std::exception_ptr interrupted, error;
  train::TrainResult result;
  released([&] {
    // The calling thread handles signals meanwhile: Ctrl-C ends the run, which is saved, in any stage.
    std::atomic<bool> done = false;
    std::thread trainer([&] {
      try {
        result = held ? train::run_job(*job, std::move(*held), observer, &stop)
                      : train::run_job(*job, observer, &stop);
      } catch (...) {
        error = std::current_exception();
      }
      done = true;
      done.notify_all();
    });
    Ticker tick;
    while (!done) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (interrupted) continue;
      try {
        tick();
      } catch (...) {
        interrupted = std::current_exception();
        stop = true;
      }
    }
    trainer.join();
    return 0;
  });
  if (interrupted) std::rethrow_exception(interrupted);
  if (observer.raised()) std::rethrow_exception(observer.raised());
  if (error) std::rethrow_exception(error);
  return dict_of(folder.string(), result);
}

}  // namespace

void bind_training(nb::module_& module) {
  module.def("train", &train_task, nb::arg("task"), nb::arg("out"), nb::arg("preset").none(),
             nb::arg("resume"), nb::arg("overwrite"), nb::arg("on_step").none(),
             nb::arg("on_validation").none(), nb::arg("settings"));
  module.def(
      "training_settings",
      [](const std::string& name) {
        const TrainingTask& task = task_named(name);
        const std::unique_ptr<train::Job> job = task.make();
        job->use_preset(task.preset);
        nb::dict settings;
        for (const train::Field& field : job->fields()) settings[field.name.c_str()] = field.value;
        return settings;
      },
      nb::arg("task"), "The settings of a task of qkv.train(), by name, with their defaults as texts.");
}

}  // namespace qkv::python
