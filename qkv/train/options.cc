#include "qkv/train/options.h"

#include <array>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"

namespace qkv::train {
namespace {

Words<ScheduleKind> words(ScheduleKind) {
  static constexpr std::array<std::pair<std::string_view, ScheduleKind>, 4> kWords{
      {{"paper", ScheduleKind::paper},
       {"inverse_sqrt", ScheduleKind::inverse_sqrt},
       {"cosine", ScheduleKind::cosine},
       {"constant", ScheduleKind::constant}}};
  return kWords;
}

Words<OptimizerKind> words(OptimizerKind) {
  static constexpr std::array<std::pair<std::string_view, OptimizerKind>, 6> kWords{
      {{"adam", OptimizerKind::adam},
       {"adamw", OptimizerKind::adamw},
       {"sgd", OptimizerKind::sgd},
       {"rmsprop", OptimizerKind::rmsprop},
       {"adagrad", OptimizerKind::adagrad},
       {"adafactor", OptimizerKind::adafactor}}};
  return kWords;
}

Words<Device> words(Device) {
  static const auto kWords = [] {
    std::array<std::pair<std::string_view, Device>, kDevices.size()> all;
    for (size_t i = 0; i < all.size(); ++i) all[i] = {name_of(kDevices[i]), kDevices[i]};
    return all;
  }();
  return kWords;
}

constexpr bool kWeights = true, kBookkeeping = false;

// The single list of options, for setting, listing and comparing.
template <class Options, class Visit>
void visit_fields(Options& o, const Visit& visit) {
  visit("train.accumulate", o.accumulate, kWeights);
  visit("train.recompute", o.recompute, kBookkeeping);
  visit("train.seed", o.seed, kWeights);
  visit("train.device", o.device, kWeights);
  visit("train.average_last", o.average_last, kWeights);
  visit("train.max_epochs", o.max_epochs, kBookkeeping);
  visit("train.max_steps", o.max_steps, kBookkeeping);
  visit("train.max_minutes", o.max_minutes, kBookkeeping);
  visit("train.validate_every", o.validate_every, kBookkeeping);
  visit("train.patience", o.patience, kBookkeeping);
  visit("train.best_by", o.best_by, kBookkeeping);
  visit("train.checkpoint_every", o.checkpoint_every, kBookkeeping);
  visit("train.checkpoint_minutes", o.checkpoint_minutes, kBookkeeping);
  visit("train.keep_checkpoints", o.keep_checkpoints, kBookkeeping);
  visit("train.log_every", o.log_every, kBookkeeping);
  visit("schedule.kind", o.schedule.kind, kWeights);
  visit("schedule.learning_rate", o.schedule.learning_rate, kWeights);
  visit("schedule.minimum", o.schedule.minimum, kWeights);
  visit("schedule.warmup_steps", o.schedule.warmup_steps, kWeights);
  visit("schedule.factor", o.schedule.factor, kWeights);
  visit("schedule.total_steps", o.schedule.total_steps, kWeights);
  visit("optimizer.kind", o.optimizer_kind, kWeights);
  visit("optimizer.clip_norm", o.optimizer.clip_norm, kWeights);
  visit("optimizer.average_decay", o.optimizer.average_decay, kWeights);
  visit("optimizer.decay_vectors", o.decay_vectors, kWeights);
  visit("adam.beta1", o.adam.beta1, kWeights);
  visit("adam.beta2", o.adam.beta2, kWeights);
  visit("adam.epsilon", o.adam.epsilon, kWeights);
  visit("adam.amsgrad", o.adam.amsgrad, kWeights);
  visit("adam.weight_decay", o.adam.weight_decay, kWeights);
  visit("sgd.momentum", o.sgd.momentum, kWeights);
  visit("sgd.dampening", o.sgd.dampening, kWeights);
  visit("sgd.nesterov", o.sgd.nesterov, kWeights);
  visit("sgd.weight_decay", o.sgd.weight_decay, kWeights);
  visit("rmsprop.alpha", o.rmsprop.alpha, kWeights);
  visit("rmsprop.epsilon", o.rmsprop.epsilon, kWeights);
  visit("rmsprop.momentum", o.rmsprop.momentum, kWeights);
  visit("rmsprop.centered", o.rmsprop.centered, kWeights);
  visit("rmsprop.weight_decay", o.rmsprop.weight_decay, kWeights);
  visit("adagrad.lr_decay", o.adagrad.lr_decay, kWeights);
  visit("adagrad.initial_accumulator", o.adagrad.initial_accumulator, kWeights);
  visit("adagrad.epsilon", o.adagrad.epsilon, kWeights);
  visit("adagrad.weight_decay", o.adagrad.weight_decay, kWeights);
  visit("adafactor.beta2_decay", o.adafactor.beta2_decay, kWeights);
  visit("adafactor.epsilon1", o.adafactor.epsilon1, kWeights);
  visit("adafactor.epsilon2", o.adafactor.epsilon2, kWeights);
  visit("adafactor.clip_threshold", o.adafactor.clip_threshold, kWeights);
  visit("adafactor.weight_decay", o.adafactor.weight_decay, kWeights);
}

template <class Number>
void require(std::string_view name, Number value, bool holds, std::string_view expected) {
  if (!holds) throw UsageError(concat(name, ": expected ", expected, ", found ", value));
}

}  // namespace

bool set_field(TrainOptions& options, std::string_view name, std::string_view value) {
  bool found = false;
  visit_fields(options, [&](std::string_view field, auto& member, bool /*decides*/) {
    if (field != name) return;
    if constexpr (std::is_enum_v<std::remove_reference_t<decltype(member)>>) {
      parse_field(field, value, words(member), member);
    } else {
      parse_field(field, value, member);
    }
    found = true;
  });
  return found;
}

std::vector<Field> fields(const TrainOptions& options) {
  std::vector<Field> result;
  visit_fields(options, [&](std::string_view field, const auto& member, bool decides) {
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(member)>>) {
      result.push_back({std::string(field), field_text(words(member), member), decides});
    } else {
      result.push_back({std::string(field), field_text(member), decides});
    }
  });
  return result;
}

void TrainOptions::validate() const {
  require("train.accumulate", accumulate, accumulate >= 1, "1 or more");
  require("optimizer.clip_norm", optimizer.clip_norm, optimizer.clip_norm >= 0, "0 or more");
  require("optimizer.average_decay", optimizer.average_decay,
          optimizer.average_decay >= 0 && optimizer.average_decay < 1, "0 to below 1");
  adam.validate();
  sgd.validate();
  rmsprop.validate();
  adagrad.validate();
  adafactor.validate();
  require("train.average_last", average_last, average_last >= 0, "0 or more");
  require("train.max_epochs", max_epochs, max_epochs >= 0, "0 or more");
  require("train.max_steps", max_steps, max_steps >= 0, "0 or more");
  require("train.max_minutes", max_minutes, max_minutes >= 0, "0 or more");
  require("train.validate_every", validate_every, validate_every >= 0, "0 or more");
  require("train.patience", patience, patience >= 0, "0 or more");
  require("train.checkpoint_every", checkpoint_every, checkpoint_every >= 0, "0 or more");
  require("train.checkpoint_minutes", checkpoint_minutes, checkpoint_minutes >= 0, "0 or more");
  require("train.keep_checkpoints", keep_checkpoints, keep_checkpoints >= 1, "1 or more");
  require("train.log_every", log_every, log_every >= 1, "1 or more");
  if (max_epochs == 0 && max_steps == 0 && max_minutes == 0) {
    throw UsageError("limits: expected train.max_epochs, train.max_steps or train.max_minutes, found none");
  }
  if (average_last > 0 && optimizer.average_decay > 0) {
    throw UsageError(concat("train.average_last = ", average_last, " and optimizer.average_decay = ",
                            optimizer.average_decay, ": expected one of them to be 0"));
  }
  ScheduleOptions resolved = schedule;
  if (resolved.total_steps == 0) resolved.total_steps = max_steps;
  resolved.validate();
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainOptions& options,
                                                 std::vector<nn::NamedParameter> parameters) {
  optim::OptimizerOptions common = options.optimizer;
  if (!options.decay_vectors) common.groups.push_back(optim::no_decay_of_vectors());
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
