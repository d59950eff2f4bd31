#pragma once
// How a model is trained.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/optim/adam.h"
#include "qkv/train/schedule.h"

namespace qkv::train {

enum class EarlyStopMetric { bleu, loss };

struct TrainOptions {
  // Batches.
  int64_t batch_tokens = 4096;  // source and target tokens in one batch
  int64_t accumulate = 1;       // batches whose gradients make one step
  int64_t max_length = 512;     // tokens of a pair's longer side; longer pairs are left out and counted
  int64_t sort_window = 1;      // pairs sorted by length together: see data::BatchOptions
  // Layers' activations are computed again in the backward pass instead of kept: less memory, more time, the
  // same bits.
  bool recompute = false;

  // Objective and optimizer. (Dropout belongs to the model's configuration.)
  float label_smoothing = 0.1f;
  optim::AdamOptions adam;
  optim::OptimizerOptions optimizer{.clip_norm = 1, .average_decay = 0.999f};
  ScheduleOptions schedule;  // d_model is the model's; total_steps is max_steps where not given
  int64_t average_last = 0;  // evaluate and export the mean of the last so many validations' weights; 0: off

  // Limits; 0: none. At least one has to be given.
  int64_t max_epochs = 0, max_steps = 0;
  double max_minutes = 0;  // of wall-clock time, validation included, over all resumed parts

  // Validation.
  int64_t validate_every = 0;  // steps; 0: after each epoch
  int64_t bleu_every = 1;      // validations from one BLEU to the next; 0: no BLEU, only loss and perplexity
  int64_t bleu_sentences = 0;  // the first so many of the validation set are translated; 0: all
  int64_t bleu_beam = 1;       // 1: greedy
  int64_t patience = 0;        // stop after so many validations in a row without a new best; 0: never
  // What is best: the highest BLEU (validations without one then do not count), or the lowest loss.
  EarlyStopMetric best_by = EarlyStopMetric::bleu;

  // Checkpoints: one after each validation, and
  int64_t checkpoint_every = 0;    // after so many steps; 0: not by steps
  double checkpoint_minutes = 10;  // after so many minutes; 0: not by time
  int64_t keep_checkpoints = 2;    // the newest so many stay

  int64_t log_every = 20;  // steps that one point of the TensorBoard curves is the mean of
  uint64_t seed = 1;       // of the initial weights, the order of the data, and dropout

  // Throws UsageError naming the option, what was expected and what was found.
  void validate() const;
};

// Sets an option by its name ("batch_tokens", "learning_rate", "schedule") from text. Returns whether there
// is such an option; throws UsageError for a value it cannot take.
bool set_field(TrainOptions& options, std::string_view name, std::string_view value);

// The options by name, as set_field takes them.
std::vector<std::pair<std::string, std::string>> fields(const TrainOptions& options);

// Whether a run that goes on from a checkpoint may have another value: limits, validation and bookkeeping may
// change, what decides the weights may not.
bool may_change(std::string_view name);

}  // namespace qkv::train
