#pragma once
// What a training run tells while it goes: the library itself never prints.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace qkv::data {
struct TranslationRows;
}

namespace qkv::train {

struct StartReport {
  int64_t parameters = 0;
  int64_t train_pairs = 0, valid_pairs = 0;
  int64_t source_vocabulary = 0, target_vocabulary = 0;
  int64_t batches_in_epoch = 0;
  int64_t resumed_from = 0;  // step; 0: a new run
};

struct StepReport {
  int64_t step = 0;                    // from 1
  int64_t epoch = 0;                   // from 1
  double epoch_progress = 0;           // 0 to 1
  double loss = 0;                     // label-smoothed, per target token, the mean over the last steps
  double nll = 0;                      // -log p of the right token, likewise
  double gradient_norm = 0;            // before clipping, likewise
  double learning_rate = 0;            // of this step
  double tokens_per_second = 0;        // source and target
  double seconds = 0;                  // since the run began, resumed parts included
  std::optional<double> seconds_left;  // until the nearest limit
};

struct ValidationReport {
  int64_t step = 0, epoch = 0;
  double loss = 0;             // -log p of the right token, per target token, without smoothing
  double perplexity = 0;       // exp(loss)
  std::optional<double> bleu;  // where it was computed
  bool best = false;           // so far
  double seconds = 0;          // that validating took
  double run_seconds = 0;      // since the run began, resumed parts included
};

// All are called on the thread that trains.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  // Something lengthy begins: "training a vocabulary".
  virtual void on_stage(const std::string& /*what*/) {}
  virtual void on_start(const StartReport& /*report*/) {}
  // Before the step that trains on it; a step has as many as TrainOptions::accumulate says.
  virtual void on_batch(const data::TranslationRows& /*rows*/) {}
  virtual void on_step(const StepReport& /*report*/) {}
  virtual void on_validation(const ValidationReport& /*report*/) {}
  virtual void on_checkpoint(int64_t /*step*/) {}
};

}  // namespace qkv::train
