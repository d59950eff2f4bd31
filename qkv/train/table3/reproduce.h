#pragma once
// Trains the rows of the paper's Table 3 (rows.h) on a parallel corpus, each with several seeds.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkv/train/observer.h"
#include "qkv/train/table3/rows.h"
#include "qkv/train/tasks/translation/translation.h"

namespace qkv::train {

struct Table3Options {
  std::filesystem::path data;  // a folder with train.en, train.de, val.en, val.de (en, de: the languages)
  std::string source_lang = "en", target_lang = "de";
  int64_t scale = 16;             // see require_table3_scale()
  int64_t steps = 5000;           // of each row but big: table3_steps()
  int64_t batch_tokens = 1024;    // source and target tokens of a step
  int64_t warmup_steps = 1000;    // of the paper's schedule
  float rate_factor = 1;          // of its learning rates, which a short warm-up raises
  int64_t seeds = 2;              // 1 to this number
  std::vector<std::string> rows;  // of select_table3_rows(); empty: base and A to E
  // Runs to train at the same time, at most threads(). Several have one thread each, which is faster for
  // small models; one has all threads(). 0: threads() runs at a scale of 8 or 16, else one. Results do not
  // depend on it.
  int64_t runs_at_once = 0;
  // Bounds the time of this call, not the training of a row: the rest is trained by the next call. 0: none.
  double max_minutes = 0;

  // Throws UsageError naming the option, what was expected and what was found.
  void validate() const;
};

// The number of runs to train at the same time: options.runs_at_once, or its default.
int64_t table3_runs_at_once(const Table3Options& options);

// The options of a reproduction that the folder holds; nothing if it holds none. Throws DataError for a
// damaged table3.json.
std::optional<Table3Options> table3_options_in(const std::filesystem::path& folder);

// The result of a row with one seed.
struct Table3Run {
  std::string row;
  uint64_t seed = 1;
  int64_t parameters = 0, steps = 0;
  double loss = 0;  // on the validation text, of its last weights: natural logarithm of the perplexity
  double bleu = 0;  // 0 to 100, beam 4
  double seconds = 0;
  std::string failure;  // why there is no result: a loss that is not finite
};

struct Table3Progress {
  std::string row;
  uint64_t seed = 1;
  int64_t run = 1, runs = 1;  // place in the order of training, and number
  int64_t ended = 0;          // runs that have ended, with those of earlier calls
  int64_t steps = 0;
  // Until the end of all runs; nothing until it can be estimated.
  std::optional<double> seconds_left;
};

// Progress of training (of the runs in progress, as in TrainObserver) and of runs. Several runs at once call
// it from several threads, one call at a time.
class Table3Observer : public TrainObserver {
 public:
  // Before a run starts or is resumed; runs that earlier calls finished are left out.
  virtual void on_run(const Table3Progress& /*progress*/) {}
  // After each step.
  virtual void on_progress(const Table3Progress& /*progress*/, const StepReport& /*report*/) {}
  virtual void on_run_end(const Table3Progress& /*progress*/, const Table3Run& /*run*/) {}
};

struct Table3Results {
  Table3Options options;
  std::vector<Table3Row> rows;
  std::vector<Table3Run> runs;  // finished ones, in the order of training
  bool finished = false;        // false: stopped, or out of time
};

// The training of a row: the paper's recipe (Adam, its schedule, no clipping, no averaged weights), validated
// once, at the end. Throws UsageError for invalid options.
TranslationJob table3_job(const Table3Options& options, const Table3Row& row, uint64_t seed,
                          const std::filesystem::path& folder);

// Trains what is missing in the folder: first all rows with seed 1, then with seed 2, ... A run is a folder
// ROW-seedN of qkv's usual form, which is resumed exactly; a finished one has result.json and no checkpoints.
// A run whose loss becomes infinite or NaN has failed, and the others go on. After each run, table3.md,
// table3.tsv and table3.svg (report.h) are written.
// More seeds and other rows may be added later. An error of one run stops the others, which are resumed by
// the next call. Throws UsageError for a folder of other files, in use, or of a reproduction with other
// settings or other data, naming the first that differs; IoError and DataError for the data.
Table3Results reproduce_table3(const std::filesystem::path& folder, const Table3Options& options,
                               Table3Observer& observer, const std::atomic<bool>* stop = nullptr);

}  // namespace qkv::train
