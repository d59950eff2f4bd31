#pragma once
// Options of training, independent of the task.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/field_text.h"
#include "qkv/optim/adafactor.h"
#include "qkv/optim/adagrad.h"
#include "qkv/optim/adam.h"
#include "qkv/optim/rmsprop.h"
#include "qkv/optim/sgd.h"
#include "qkv/tensor/device.h"
#include "qkv/train/lora_task.h"
#include "qkv/train/schedule.h"
#include "qkv/train/task.h"

namespace qkv::train {

enum class OptimizerKind { adam, adamw, sgd, rmsprop, adagrad, adafactor };

// The validations that computed their costly metrics of the first items alone, as all would have taken too
// long: pairs of the step and the number of items, by ascending steps.
struct ValidationSamples {
  NumberPairs list;

  // The number of items of the validation after this step; 0: all.
  int64_t at(int64_t step) const {
    const auto found = std::ranges::find(list, step, &NumberPairs::value_type::first);
    return found == list.end() ? 0 : found->second;
  }

  // As text: "100:120,200:640".
  friend void parse_field(std::string_view field, std::string_view text, ValidationSamples& value) {
    value.list = parse_pairs(field, text, "STEP:ITEMS,... such as 100:120,200:640");
  }
  friend std::string field_text(const ValidationSamples& value) { return pairs_text(value.list); }
};

struct TrainOptions {
  // Batches per step. Their gradients are summed by a binary tree (GradientSum), so that the bits depend on
  // this number, and not on the ranks among which the batches are divided.
  int64_t accumulate = 1;
  // f32 or bf16, which halves what ranks send. bf16: the gradient of each batch and each sum of two in the
  // tree are rounded to the nearest, ties to even, in one process too; sums are added in f32, and clipping
  // and optimizer remain f32.
  DType gradient_dtype = DType::f32;
  // With several ranks, gradients are sent in groups of up to this many bytes, each as soon as the backward
  // pass has computed it. No effect on the bits.
  int64_t bucket_bytes = int64_t{1} << 20;
  // Gradient checkpointing: recomputes the activations of layers in the backward pass. Less memory, more
  // time, the same bits.
  bool recompute = false;
  // The dtype to which products of weights round their operands, f32 or bf16: mixed precision. Weights, sums,
  // gradients, attention and optimizer remain f32, and so does validation.
  DType precision = DType::f32;

  Device device = Device::cpu;  // device of the model; other devices round differently

  OptimizerKind optimizer_kind = OptimizerKind::adamw;
  optim::OptimizerOptions optimizer{.clip_norm = 1, .average_decay = 0.999f};
  bool decay_vectors = false;  // apply weight decay to biases and norms too
  optim::AdamOptions adam;     // options of adam and adamw; the others likewise
  optim::SgdOptions sgd;
  optim::RmspropOptions rmsprop;
  optim::AdagradOptions adagrad;
  optim::AdafactorOptions adafactor;
  LoraOptions lora;  // train an adapter instead of the model
  // Without total_steps, the trainer sets it before the first step (Trainer::run).
  ScheduleOptions schedule;
  // Evaluates and exports the mean of the weights of the last validations, this many; 0: off.
  int64_t average_last = 0;

  // Limits; 0: none. At least one is required.
  int64_t max_epochs = 0, max_steps = 0;
  // Wall-clock time, the last validation and checkpoint included, over all resumed parts. A cosine or linear
  // schedule is fitted to it (Trainer::run).
  double max_minutes = 0;
  // Whether the schedule's steps are those that fit into max_minutes; the trainer sets it.
  bool fit_steps = false;

  // Validation.
  int64_t validate_every = 0;  // steps; 0: after each epoch
  // Whether the trainer sets validate_every so that validations take at most a tenth of the run: for a
  // default rather than a choice (Job::complete()).
  bool fit_validation = false;
  // With max_minutes, the trainer adds to these (Task::items_within()).
  ValidationSamples samples;
  int64_t patience = 0;  // stops after this many consecutive validations without a new best; 0: never
  // The metric that selects the best weights, or "loss"; empty: the task's first. Ties are broken by the
  // loss; validations without the metric do not count.
  std::string best_by;

  // Checkpoints are written after each validation, and
  int64_t checkpoint_every = 0;    // after this many steps; 0: off
  double checkpoint_minutes = 10;  // after this many minutes; 0: off
  int64_t keep_checkpoints = 2;    // number of checkpoints to keep

  // Where the observer writes the batches (on_batch()), for the resumed run; empty: nowhere. The trainer
  // writes nothing there.
  std::string save_batches;

  int64_t log_every = 20;  // steps per point of the training curves
  uint64_t seed = 1;       // of initial weights, data order and dropout

  // The step that ends the run: max_steps, or the end of the schedule with fit_steps; 0: none.
  int64_t last_step() const;

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
  // Throws UsageError if a step has fewer batches than this.
  void require_batches_for(int ranks) const;
};

// Sets an option by name ("train.accumulate", "adam.beta2", "schedule.kind") from text. Returns false for an
// unknown option; throws UsageError for an invalid value.
bool set_field(TrainOptions& options, std::string_view name, std::string_view value);

// All options as name and text. Limits, validation and bookkeeping do not affect the weights: a resumed run
// may change them.
std::vector<Field> fields(TrainOptions options);
// Those of them that are options of `qkv train`.
std::vector<FieldFlag> flags(TrainOptions options);

// The selected optimizer. `groups`: the task's (Task::parameter_groups()); unless decay_vectors is set, their
// vectors have no weight decay either. Throws UsageError naming an option that is out of range.
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainOptions& options,
                                                 std::vector<nn::NamedParameter> parameters,
                                                 const std::vector<optim::ParameterGroup>& groups = {});

}  // namespace qkv::train
