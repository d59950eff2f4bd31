#pragma once
// How a model is trained, whatever the task.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/optim/adafactor.h"
#include "qkv/optim/adagrad.h"
#include "qkv/optim/adam.h"
#include "qkv/optim/rmsprop.h"
#include "qkv/optim/sgd.h"
#include "qkv/tensor/device.h"
#include "qkv/train/schedule.h"
#include "qkv/train/task.h"

namespace qkv::train {

enum class OptimizerKind { adam, adamw, sgd, rmsprop, adagrad, adafactor };

struct TrainOptions {
  int64_t accumulate = 1;  // batches whose gradients make one step
  // Activations of layers are computed again in the backward pass instead of kept: less memory, more time,
  // the same bits.
  bool recompute = false;

  Device device = Device::cpu;  // where the model computes; other devices round differently

  OptimizerKind optimizer_kind = OptimizerKind::adamw;
  optim::OptimizerOptions optimizer{.clip_norm = 1, .average_decay = 0.999f};
  bool decay_vectors = false;  // weight decay also of biases and norms
  optim::AdamOptions adam;     // of adam and adamw; the others likewise of their kind
  optim::SgdOptions sgd;
  optim::RmspropOptions rmsprop;
  optim::AdagradOptions adagrad;
  optim::AdafactorOptions adafactor;
  ScheduleOptions schedule;  // total_steps is max_steps where not given
  // Evaluate and export the mean of the weights of this many validations, the last ones; 0: off.
  int64_t average_last = 0;

  // Limits; 0: none. At least one has to be given.
  int64_t max_epochs = 0, max_steps = 0;
  double max_minutes = 0;  // of wall-clock time, validation included, over all resumed parts

  // Validation.
  int64_t validate_every = 0;  // steps; 0: after each epoch
  int64_t patience = 0;        // stop after this many validations in a row without a new best; 0: never
  // The metric that decides which weights are best, or "loss"; empty: the task's first. Equal values are told
  // apart by the loss; validations without the metric do not count.
  std::string best_by;

  // Checkpoints: one after each validation, and
  int64_t checkpoint_every = 0;    // after this many steps; 0: not by steps
  double checkpoint_minutes = 10;  // after this many minutes; 0: not by time
  int64_t keep_checkpoints = 2;    // how many stay, the newest

  int64_t log_every = 20;  // steps that one point of the training curves is the mean of
  uint64_t seed = 1;       // of the initial weights, the order of the data, and dropout

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// Sets an option by its name ("train.accumulate", "adam.beta2", "schedule.kind") from text. Returns whether
// there is such an option; throws UsageError for a value it cannot take.
bool set_field(TrainOptions& options, std::string_view name, std::string_view value);

// The options by name, as set_field takes them. Limits, validation and bookkeeping do not decide the weights:
// a resumed run may have others.
std::vector<Field> fields(const TrainOptions& options);

// The optimizer that the options name. Throws UsageError naming an option that is out of range.
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainOptions& options,
                                                 std::vector<nn::NamedParameter> parameters);

}  // namespace qkv::train
