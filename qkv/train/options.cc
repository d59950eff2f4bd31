#include "qkv/train/options.h"

#include <algorithm>
#include <array>

#include "qkv/base/error.h"
#include "qkv/ops/quantize.h"
#include "qkv/train/fields.h"

namespace qkv {

static Words<DType> words(DType) {
  static constexpr std::array<std::pair<std::string_view, DType>, 4> kWords{
      {{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}, {"int8", DType::i8}}};
  return kWords;
}

}  // namespace qkv

namespace qkv::train {

static Words<ScheduleKind> words(ScheduleKind) {
  static constexpr std::array<std::pair<std::string_view, ScheduleKind>, 5> kWords{
      {{"paper", ScheduleKind::paper},
       {"inverse_sqrt", ScheduleKind::inverse_sqrt},
       {"cosine", ScheduleKind::cosine},
       {"linear", ScheduleKind::linear},
       {"constant", ScheduleKind::constant}}};
  return kWords;
}

static Words<OptimizerKind> words(OptimizerKind) {
  static constexpr std::array<std::pair<std::string_view, OptimizerKind>, 6> kWords{
      {{"adam", OptimizerKind::adam},
       {"adamw", OptimizerKind::adamw},
       {"sgd", OptimizerKind::sgd},
       {"rmsprop", OptimizerKind::rmsprop},
       {"adagrad", OptimizerKind::adagrad},
       {"adafactor", OptimizerKind::adafactor}}};
  return kWords;
}

static void list_settings(Settings& all, TrainOptions& o) {
  all.add("train.accumulate", o.accumulate, kDecidesWeights, at_least(1))
      .flag(
          {"BATCHES",
           "Batches per step (gradient accumulation), divided among the ranks of a run on several machines"});
  all.add("train.gradient_dtype", o.gradient_dtype, kDecidesWeights)
      .flag(
          {"f32|bf16",
           "Dtype of the gradients of batches and of their sums; bf16 halves what ranks send, and rounds in "
           "the same places for any number of ranks"});
  all.add("train.bucket_bytes", o.bucket_bytes, kBookkeeping, at_least(1));
  all.add("train.recompute", o.recompute, kBookkeeping)
      .flag({"", "Gradient checkpointing: less memory, more time, the same bits"});
  all.add("train.precision", o.precision, kDecidesWeights)
      .flag({"f32|bf16",
             "Operands of products; bf16: mixed precision, faster on processors with instructions for it. "
             "Weights, sums and optimizer remain f32"});
  all.add("train.seed", o.seed, kDecidesWeights)
      .flag({"N", "Seed of initial weights, data order and dropout"});
  all.add("train.device", o.device, kDecidesWeights).flag({kDeviceNames, kDeviceHelp});
  all.add("train.average_last", o.average_last, kDecidesWeights, at_least(0))
      .flag({"N", "Export the mean of the weights of the last N validations instead; 0: off"});
  all.add("train.max_epochs", o.max_epochs, kBookkeeping, at_least(0))
      .flag({"EPOCHS", "Stop after this many epochs; 0: no limit (without any limit: 40, with --from: 3)"});
  all.add("train.max_steps", o.max_steps, kBookkeeping, at_least(0))
      .flag({"STEPS", "Stop after this many steps; 0: no limit"});
  all.add("train.max_minutes", o.max_minutes, kBookkeeping, at_least(0))
      .flag({"MINUTES",
             "Stop after this time, validation included; 0: no limit. Schedule and warm-up fit the steps "
             "that this time has. Up to 10 minutes, other defaults make a small model in small batches"});
  all.add("train.fit_steps", o.fit_steps, kBookkeeping);
  all.add("train.validate_every", o.validate_every, kBookkeeping, at_least(0))
      .flag({"STEPS",
             "Steps between validations; 0: after each epoch (default: after each epoch or more often, as "
             "fits the run, in at most a tenth of its time)"});
  all.add("train.validation_items", o.samples, kBookkeeping);
  all.add("train.fit_validation", o.fit_validation, kBookkeeping);
  all.add("train.patience", o.patience, kBookkeeping, at_least(0))
      .flag({"N", "Stop after N validations without a new best; 0: never"});
  all.add("train.best_by", o.best_by, kBookkeeping);
  all.add("train.checkpoint_every", o.checkpoint_every, kBookkeeping, at_least(0))
      .flag({"STEPS", "Steps between checkpoints; 0: off"});
  all.add("train.checkpoint_minutes", o.checkpoint_minutes, kBookkeeping, at_least(0))
      .flag({"MINUTES", "Minutes between checkpoints; 0: off"});
  all.add("train.keep_checkpoints", o.keep_checkpoints, kBookkeeping, at_least(1));
  all.add("train.save_batches", o.save_batches, kBookkeeping)
      .flag({"FILE",
             "Write the token ids of each batch to this file, one JSON object per line, to train another "
             "program on the same batches; '' turns it off in a resumed run (default: none)"});
  all.add("train.log_every", o.log_every, kBookkeeping, at_least(1));
  all.add("schedule.kind", o.schedule.kind, kDecidesWeights)
      .flag({"|", "Learning rate schedule; cosine and linear fall to schedule.minimum at the last step",
             "--schedule"});
  all.add("schedule.learning_rate", o.schedule.learning_rate, kDecidesWeights)
      .flag({"RATE", "Maximum learning rate (not for --schedule paper)"});
  all.add("schedule.minimum", o.schedule.minimum, kDecidesWeights);
  all.add("schedule.warmup_steps", o.schedule.warmup_steps, kDecidesWeights)
      .flag({"STEPS",
             "Warm-up steps to the maximum learning rate; 0: none. A default is at most a tenth of the run"});
  all.add("schedule.fit_warmup", o.schedule.fit_warmup, kDecidesWeights);
  all.add("schedule.factor", o.schedule.factor, kDecidesWeights);
  all.add("schedule.total_steps", o.schedule.total_steps, kDecidesWeights);
  all.add("schedule.refits", o.schedule.refits, kDecidesWeights);
  all.add("optimizer.kind", o.optimizer_kind, kDecidesWeights);
  all.add("optimizer.clip_norm", o.optimizer.clip_norm, kDecidesWeights, at_least(0));
  all.add("optimizer.average_decay", o.optimizer.average_decay, kDecidesWeights, below_one())
      .flag({"RATE", "Decay of the moving average of the weights, which is exported; 0: no average"});
  all.add("optimizer.decay_vectors", o.decay_vectors, kDecidesWeights);
  all.add("lora.rank", o.lora.rank, kDecidesWeights)
      .flag(
          {"RANK",
           "Train low-rank updates (LoRA) of the model of --from, and write an adapter; 0: train all weights",
           "--lora"});
  all.add("lora.alpha", o.lora.alpha, kDecidesWeights)
      .flag({"X", "Factor of the updates, times 1 / RANK", "--lora-alpha"});
  all.add("lora.targets", o.lora.targets, kDecidesWeights)
      .flag({"NAMES",
             "Projections to update, separated by commas: q_proj, k_proj, v_proj, out_proj, fc1, fc2, gate",
             "--lora-targets"});
  all.add("lora.dtype", o.lora.dtype, kDecidesWeights)
      .flag({"|", "Dtype of the frozen weights under the updates", "--lora-dtype"});
  all.add("adam.beta1", o.adam.beta1, kDecidesWeights);
  all.add("adam.beta2", o.adam.beta2, kDecidesWeights);
  all.add("adam.epsilon", o.adam.epsilon, kDecidesWeights);
  all.add("adam.amsgrad", o.adam.amsgrad, kDecidesWeights);
  all.add("adam.weight_decay", o.adam.weight_decay, kDecidesWeights);
  all.add("sgd.momentum", o.sgd.momentum, kDecidesWeights);
  all.add("sgd.dampening", o.sgd.dampening, kDecidesWeights);
  all.add("sgd.nesterov", o.sgd.nesterov, kDecidesWeights);
  all.add("sgd.weight_decay", o.sgd.weight_decay, kDecidesWeights);
  all.add("rmsprop.alpha", o.rmsprop.alpha, kDecidesWeights);
  all.add("rmsprop.epsilon", o.rmsprop.epsilon, kDecidesWeights);
  all.add("rmsprop.momentum", o.rmsprop.momentum, kDecidesWeights);
  all.add("rmsprop.centered", o.rmsprop.centered, kDecidesWeights);
  all.add("rmsprop.weight_decay", o.rmsprop.weight_decay, kDecidesWeights);
  all.add("adagrad.lr_decay", o.adagrad.lr_decay, kDecidesWeights);
  all.add("adagrad.initial_accumulator", o.adagrad.initial_accumulator, kDecidesWeights);
  all.add("adagrad.epsilon", o.adagrad.epsilon, kDecidesWeights);
  all.add("adagrad.weight_decay", o.adagrad.weight_decay, kDecidesWeights);
  all.add("adafactor.beta2_decay", o.adafactor.beta2_decay, kDecidesWeights);
  all.add("adafactor.epsilon1", o.adafactor.epsilon1, kDecidesWeights);
  all.add("adafactor.epsilon2", o.adafactor.epsilon2, kDecidesWeights);
  all.add("adafactor.clip_threshold", o.adafactor.clip_threshold, kDecidesWeights);
  all.add("adafactor.weight_decay", o.adafactor.weight_decay, kDecidesWeights);
}

bool set_field(TrainOptions& options, std::string_view name, std::string_view value) {
  Settings all;
  list_settings(all, options);
  return all.set(name, value);
}

std::vector<Field> fields(TrainOptions options) {
  Settings all;
  list_settings(all, options);
  return all.list();
}

std::vector<FieldFlag> flags(TrainOptions options) {
  Settings all;
  list_settings(all, options);
  return all.flags();
}

void TrainOptions::validate() const {
  validate_settings(*this);
  require_setting("train.precision", weight_dtype_name(precision),
                  precision == DType::f32 || precision == DType::bf16, "f32 or bf16");
  require_setting("train.gradient_dtype", weight_dtype_name(gradient_dtype),
                  gradient_dtype == DType::f32 || gradient_dtype == DType::bf16, "f32 or bf16");
  lora.validate();
  adam.validate();
  sgd.validate();
  rmsprop.validate();
  adagrad.validate();
  adafactor.validate();
  if (max_epochs == 0 && max_steps == 0 && max_minutes == 0) {
    throw UsageError("limits: expected train.max_epochs, train.max_steps or train.max_minutes, found none");
  }
  if (average_last > 0 && optimizer.average_decay > 0) {
    throw UsageError(concat("train.average_last = ", average_last, " and optimizer.average_decay = ",
                            optimizer.average_decay, ": expected one of them to be 0"));
  }
  ScheduleOptions resolved = schedule;
  // The trainer sets what is missing.
  if (resolved.fit_warmup) resolved.warmup_steps = std::min<int64_t>(resolved.warmup_steps, 0);
  if (resolved.total_steps == 0) resolved.total_steps = max_steps;
  if (resolved.total_steps == 0) resolved.total_steps = resolved.warmup_steps + 1;
  resolved.validate();
}

void TrainOptions::require_batches_for(int ranks) const {
  if (accumulate >= ranks) return;
  throw UsageError(concat("train.accumulate: expected a batch in each step for each of ", ranks,
                          " ranks, found ", accumulate));
}

int64_t TrainOptions::last_step() const {
  const int64_t fitted = fit_steps && max_minutes > 0 ? schedule.last_step() : 0;
  return max_steps > 0 && fitted > 0 ? std::min(max_steps, fitted) : std::max(max_steps, fitted);
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainOptions& options,
                                                 std::vector<nn::NamedParameter> parameters,
                                                 const std::vector<optim::ParameterGroup>& groups) {
  optim::OptimizerOptions common = options.optimizer;
  const optim::ParameterGroup vectors = optim::no_decay_of_vectors();
  for (const optim::ParameterGroup& group : groups) {
    if (!options.decay_vectors && !group.weight_decay) {
      optim::ParameterGroup part = group;
      part.contains = [all = group.contains, small = vectors.contains](const nn::NamedParameter& parameter) {
        return all(parameter) && small(parameter);
      };
      part.weight_decay = vectors.weight_decay;
      common.groups.push_back(std::move(part));
    }
    common.groups.push_back(group);
  }
  if (!options.decay_vectors) common.groups.push_back(vectors);
  switch (options.optimizer_kind) {
    case OptimizerKind::adam:
      return std::make_unique<optim::Adam>(std::move(parameters), options.adam, common);
    case OptimizerKind::sgd:
      return std::make_unique<optim::Sgd>(std::move(parameters), options.sgd, common);
    case OptimizerKind::rmsprop:
      return std::make_unique<optim::Rmsprop>(std::move(parameters), options.rmsprop, common);
    case OptimizerKind::adagrad:
      return std::make_unique<optim::Adagrad>(std::move(parameters), options.adagrad, common);
    case OptimizerKind::adafactor:
      return std::make_unique<optim::Adafactor>(std::move(parameters), options.adafactor, common);
    case OptimizerKind::adamw:
      break;
  }
  return std::make_unique<optim::AdamW>(std::move(parameters), options.adam, common);
}

}  // namespace qkv::train
