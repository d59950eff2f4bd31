#include "qkv/train/table3/reproduce.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/parallel.h"
#include "qkv/base/stop.h"
#include "qkv/base/thread.h"
#include "qkv/train/table3/report.h"
#include "qkv/train/table3/reproduction_folder.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

void require_table3(const char* name, double value, bool holds, const char* expected) {
  if (!holds) throw UsageError(concat(name, ": expected ", expected, ", found ", value));
}

// A flag that becomes true by request, when another flag does, and when the time is over.
class SharedStop {
 public:
  SharedStop(const std::atomic<bool>* stop, double minutes) : stop_(stop) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = minutes > 0
                                      ? Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                           std::chrono::duration<double>(60 * minutes))
                                      : Clock::time_point::max();
    thread_ = start_thread([this, end] {
      while (!done_ && !requested_) {
        const Clock::time_point now = Clock::now();
        if ((stop_ && *stop_) || now >= end) requested_ = true;
        std::this_thread::sleep_until(std::min(end, now + std::chrono::milliseconds(20)));
      }
    });
  }
  ~SharedStop() {
    done_ = true;
    thread_.join();
  }
  SharedStop(const SharedStop&) = delete;
  SharedStop& operator=(const SharedStop&) = delete;

  void request() { requested_ = true; }
  // Follows the other flag at once: the thread may be 20 ms late.
  bool requested() {
    if (stop_ && *stop_) requested_ = true;
    return requested_;
  }
  const std::atomic<bool>* flag() const { return &requested_; }

 private:
  const std::atomic<bool>* stop_;
  std::atomic<bool> requested_ = false, done_ = false;
  std::thread thread_;
};

struct PlannedRun {
  Table3Row row;
  uint64_t seed = 1;
};

// The time of runs, from those that have ended: of the same row with another seed, else in proportion to
// parameters and steps.
class TimeEstimate {
 public:
  void add(const Table3Run& run) {
    if (!run.failure.empty()) return;
    of_row_[run.row] = run.seconds;
    seconds_ += run.seconds;
    work_ += static_cast<double>(run.parameters) * static_cast<double>(run.steps);
  }
  std::optional<double> seconds(const std::string& row, double work) const {
    if (const auto found = of_row_.find(row); found != of_row_.end()) return found->second;
    if (work_ == 0) return std::nullopt;
    return seconds_ / work_ * work;
  }

 private:
  std::map<std::string, double> of_row_;
  double seconds_ = 0, work_ = 0;
};

// Without biases and norms.
double matrix_parameters(const models::TransformerConfig& config, int64_t vocabulary) {
  const auto attention = static_cast<double>(2 * config.d_model * config.heads * (config.d_k + config.d_v));
  const auto feed_forward = static_cast<double>(2 * config.d_model * config.d_ff);
  const auto layers = static_cast<double>(config.encoder_layers);
  return layers * (3 * attention + 2 * feed_forward) + static_cast<double>(vocabulary * config.d_model);
}

// Trains runs, several at once if asked to. The mutex protects what they share: results, times, the report
// and the observer.
class Reproduction {
 public:
  Reproduction(fs::path folder, const Table3Options& options, Table3Observer& observer, SharedStop& stop)
      : folder_(std::move(folder)), observer_(observer), stop_(stop) {
    results_.options = options;
    results_.rows = select_table3_rows(options.rows);
    for (int64_t seed = 1; seed <= options.seeds; ++seed) {
      for (const Table3Row& row : results_.rows)
        planned_.push_back({.row = row, .seed = static_cast<uint64_t>(seed)});
    }
  }

  Table3Results run() {
    bool stopped = !make_vocabulary();
    std::vector<size_t> left;
    for (size_t i = 0; i < planned_.size(); ++i) {
      const fs::path folder = folder_of_run(folder_, planned_[i].row.name, planned_[i].seed);
      if (const std::optional<Table3Run> run = read_result(folder)) {
        remove_leftovers(folder);
        times_.add(*run);
        done_.emplace(key(planned_[i]), *run);
      } else {
        left.push_back(i);
      }
    }
    if (!stopped) stopped = !train_all(left);
    results_.finished = !stopped;
    write_report();
    return std::move(results_);
  }

 private:
  using Key = std::pair<std::string, uint64_t>;
  static Key key(const PlannedRun& planned) { return {planned.row.name, planned.seed}; }

  // All rows have one vocabulary. False if it was stopped.
  bool make_vocabulary() {
    const fs::path path = table3_vocabulary_file(folder_);
    if (fs::exists(path)) return true;
    const Table3Files files = table3_files(results_.options);
    observer_.on_stage("training the vocabulary");
    try {
      write_file_atomically(
          path, text::train_sentencepiece({.inputs = {files.train.source, files.train.target},
                                           .vocab_size = table3_vocabulary(results_.options.scale),
                                           .smaller_if_needed = true,
                                           .kind = text::SubwordKind::bpe},
                                          stop_.flag()));
    } catch (const Stopped&) {
      return false;
    }
    return true;
  }

  // False if it was stopped. Inside parallel_for a run has one thread: its own parallel loops run on it.
  bool train_all(const std::vector<size_t>& runs) {
    at_once_ = std::min(table3_runs_at_once(results_.options), std::ssize(runs));
    std::atomic<size_t> next = 0;
    parallel_for(at_once_, 1, [&](int64_t, int64_t) {
      for (size_t i = next++; i < runs.size() && !stop_.requested(); i = next++) {
        try {
          train(runs[i]);
        } catch (...) {
          stop_.request();  // the other runs save and end, so that the error is shown at once
          throw;
        }
      }
    });
    return done_.size() == planned_.size();
  }

  double work_of(const Table3Row& row) const {
    const Table3Options& options = results_.options;
    return matrix_parameters(table3_config(row, options.scale), table3_vocabulary(options.scale)) *
           static_cast<double>(table3_steps(row, options.steps));
  }

  // Until the end of all runs, from the time that each run in progress has left.
  std::optional<double> seconds_left() const {
    double sum = 0, longest = 0;
    for (size_t i = 0; i < planned_.size(); ++i) {
      if (done_.contains(key(planned_[i]))) continue;
      std::optional<double> seconds;
      if (const auto found = in_progress_.find(i); found != in_progress_.end() && found->second.left) {
        seconds = found->second.left;
      } else if (seconds = times_.seconds(planned_[i].row.name, work_of(planned_[i].row)); !seconds) {
        seconds = seconds_by_work(work_of(planned_[i].row));
      }
      if (!seconds) return std::nullopt;
      sum += *seconds;
      longest = std::max(longest, *seconds);
    }
    return std::max(longest, sum / static_cast<double>(std::max<int64_t>(at_once_, 1)));
  }

  // No run has ended: in proportion to one in progress.
  std::optional<double> seconds_by_work(double work) const {
    for (const auto& [index, time] : in_progress_) {
      if (time.left) return (time.spent + *time.left) / work_of(planned_[index].row) * work;
    }
    return std::nullopt;
  }

  // Adds the runs to the trainer's reports.
  class RunObserver : public TrainObserver {
   public:
    RunObserver(Reproduction& owner, size_t index, Table3Progress progress)
        : owner_(owner), index_(index), progress_(std::move(progress)) {}

    void on_stage(const std::string& what) override {
      const std::lock_guard lock(owner_.mutex_);
      owner_.observer_.on_stage(what);
    }
    void on_start(const StartReport& report) override {
      parameters = report.parameters;
      const std::lock_guard lock(owner_.mutex_);
      owner_.observer_.on_start(report);
    }
    void on_batch(const Batch& batch) override {
      const std::lock_guard lock(owner_.mutex_);
      owner_.observer_.on_batch(batch);
    }
    void on_step(const StepReport& report) override {
      const std::lock_guard lock(owner_.mutex_);
      owner_.observer_.on_step(report);
      owner_.in_progress_[index_] = {.spent = report.seconds, .left = report.seconds_left};
      progress_.ended = std::ssize(owner_.done_);
      progress_.seconds_left = owner_.seconds_left();
      owner_.observer_.on_progress(progress_, report);
      owner_.stop_.requested();  // which the trainer reads next
    }
    void on_validation(const ValidationReport& report) override {
      const std::lock_guard lock(owner_.mutex_);
      owner_.observer_.on_validation(report);
    }
    void before_checkpoint(int64_t step) override {
      const std::lock_guard lock(owner_.mutex_);
      owner_.observer_.before_checkpoint(step);
    }
    void on_checkpoint(int64_t step) override {
      const std::lock_guard lock(owner_.mutex_);
      owner_.observer_.on_checkpoint(step);
    }

    int64_t parameters = 0;

   private:
    Reproduction& owner_;
    size_t index_;
    Table3Progress progress_;
  };

  void train(size_t index) {
    const PlannedRun& planned = planned_[index];
    const fs::path folder = folder_of_run(folder_, planned.row.name, planned.seed);
    TranslationJob job = table3_job(results_.options, planned.row, planned.seed, folder_);
    Table3Progress progress{.row = planned.row.name,
                            .seed = planned.seed,
                            .run = static_cast<int64_t>(index) + 1,
                            .runs = std::ssize(planned_),
                            .steps = job.options.max_steps,
                            .seconds_left = std::nullopt};
    {
      const std::lock_guard lock(mutex_);
      progress.ended = std::ssize(done_);
      progress.seconds_left = seconds_left();
      observer_.on_run(progress);
    }
    RunObserver observer(*this, index, progress);
    Table3Run run{.row = planned.row.name, .seed = planned.seed, .failure = {}};
    const auto started = std::chrono::steady_clock::now();
    try {
      RunFolder held(folder, IfRunExists::resume);
      // The vocabulary's path as the run knows it: the whole reproduction may have been moved.
      if (held.resumes() && held.settings()) {
        const auto path = held.settings()->find("vocabulary.model");
        if (path != held.settings()->end()) job.set_field("vocabulary.model", path->second);
      }
      const TrainResult result = run_job(job, std::move(held), observer, stop_.flag());
      if (result.reason == StopReason::requested) return;
      if (!result.validations.empty() && !std::isfinite(result.validations.back().evaluation.loss))
        throw NumericError(concat("step ", result.steps, ": the validation loss is not finite"));
      // The only validation is that of the last weights. It may have ended in an earlier call.
      const auto value = [&](const char* name) {
        const auto found = result.best.find(name);
        if (found != result.best.end() && result.best_step == result.steps) return found->second;
        throw DataError(
            concat(folder.string(), ": expected the ", name, " of step ", result.steps, ", found none"));
      };
      run.steps = result.steps;
      run.loss = value("loss");
      run.bleu = 100 * value("bleu");
      run.seconds = result.seconds;
    } catch (const NumericError& error) {
      run.failure = error.what();
      run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    }
    run.parameters = observer.parameters;
    write_result(folder, run);
    remove_leftovers(folder);
    const std::lock_guard lock(mutex_);
    in_progress_.erase(index);
    times_.add(run);
    done_.emplace(key(planned), run);
    write_report();
    progress.ended = std::ssize(done_);
    observer_.on_run_end(progress, run);
  }

  void write_report() {
    results_.runs.clear();
    for (const PlannedRun& planned : planned_) {
      if (const auto found = done_.find(key(planned)); found != done_.end())
        results_.runs.push_back(found->second);
    }
    const Table3Report report = summarise(results_);
    write_file_atomically(folder_ / "table3.md", table3_markdown(report));
    write_file_atomically(folder_ / "table3.tsv", table3_tsv(report));
    write_file_atomically(folder_ / "table3.svg", table3_svg(report));
  }

  struct RunTime {
    double spent = 0;            // seconds of this call
    std::optional<double> left;  // nothing until it can be estimated
  };

  fs::path folder_;
  Table3Observer& observer_;
  SharedStop& stop_;
  std::vector<PlannedRun> planned_;
  int64_t at_once_ = 1;

  std::mutex mutex_;
  Table3Results results_;  // runs alone change
  std::map<Key, Table3Run> done_;
  std::map<size_t, RunTime> in_progress_;
  TimeEstimate times_;
};

}  // namespace

void Table3Options::validate() const {
  const auto whole = [](int64_t value) { return static_cast<double>(value); };
  require_table3_scale(scale);
  require_table3("steps", whole(steps), steps >= 1 && steps <= 1'000'000'000, "1 to 1000000000");
  require_table3("batch_tokens", whole(batch_tokens), batch_tokens >= 1, "1 or more");
  require_table3("warmup_steps", whole(warmup_steps), warmup_steps >= 0, "0 or more");
  require_table3("rate_factor", static_cast<double>(rate_factor), rate_factor > 0 && rate_factor < 1e6F,
                 "more than 0 and less than 1000000");
  require_table3("runs_at_once", whole(runs_at_once), runs_at_once >= 0, "0 or more");
  require_table3("seeds", whole(seeds), seeds >= 1 && seeds <= kMaxTable3Seeds, "1 to 1000");
  require_table3("max_minutes", max_minutes, max_minutes >= 0 && max_minutes < 1e7,
                 "0 to less than 10000000");
  for (const auto& [name, language] :
       {std::pair("source_lang", &source_lang), {"target_lang", &target_lang}}) {
    if (language->empty() || language->find('/') != std::string::npos)
      throw UsageError(
          concat(name, ": expected the ending of the texts' names, such as en, found '", *language, "'"));
  }
  if (source_lang == target_lang)
    throw UsageError(
        concat("target_lang: expected another language than source_lang, found '", target_lang, "'"));
  if (data.empty()) throw UsageError("data: expected a folder of texts, found none");
  select_table3_rows(rows);
}

int64_t table3_runs_at_once(const Table3Options& options) {
  if (options.runs_at_once > 0) return std::min<int64_t>(options.runs_at_once, threads());
  return options.scale >= 8 ? threads() : 1;
}

std::optional<Table3Options> table3_options_in(const fs::path& folder) {
  std::optional<SavedTable3> saved = read_table3(folder);
  if (!saved) return std::nullopt;
  return std::move(saved->options);
}

TranslationJob table3_job(const Table3Options& options, const Table3Row& row, uint64_t seed,
                          const fs::path& folder) {
  options.validate();
  const Table3Files files = table3_files(options);
  TranslationJob job;
  job.folder = folder_of_run(folder, row.name, seed);
  job.existing = IfRunExists::resume;
  job.train = files.train;
  job.valid = files.valid;
  job.config = table3_config(row, options.scale);
  job.vocabulary.model = table3_vocabulary_file(folder);
  job.vocabulary.source_lang = options.source_lang;
  job.vocabulary.target_lang = options.target_lang;
  job.task.batch_tokens = options.batch_tokens;
  job.task.max_length = kTable3Positions - 1;  // </s> needs a position too
  job.task.label_smoothing = row.label_smoothing;
  job.task.bleu_beam = 4;
  job.options.optimizer_kind = OptimizerKind::adam;
  job.options.optimizer = {.clip_norm = 0, .average_decay = 0};
  job.options.schedule = {
      .kind = ScheduleKind::paper, .warmup_steps = options.warmup_steps, .factor = options.rate_factor};
  job.options.max_steps = job.options.validate_every = table3_steps(row, options.steps);
  job.options.checkpoint_minutes = 1;
  job.options.keep_checkpoints = 1;
  job.options.seed = seed;
  return job;
}

Table3Results reproduce_table3(const fs::path& folder, const Table3Options& options, Table3Observer& observer,
                               const std::atomic<bool>* stop) {
  options.validate();
  const std::string fingerprint = fingerprint_of(table3_files(options));
  require_same_reproduction(folder, options, fingerprint);
  // Texts that do not fit each other must not become those of the folder.
  table3_job(options, Table3Row(), 1, folder).check();
  make_writable_folder(folder);
  const FolderLock lock(folder);
  remove_partial_files(folder);
  require_same_reproduction(folder, options, fingerprint);  // another process may have begun one
  write_table3(folder, options, fingerprint);
  SharedStop shared(stop, options.max_minutes);
  return Reproduction(folder, options, observer, shared).run();
}

}  // namespace qkv::train
