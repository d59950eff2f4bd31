#include "qkv/train/options.h"

#include <array>
#include <charconv>
#include <cmath>

#include "qkv/base/error.h"

namespace qkv::train {
namespace {

constexpr std::array<std::pair<std::string_view, ScheduleKind>, 4> kSchedules{
    {{"paper", ScheduleKind::paper},
     {"inverse_sqrt", ScheduleKind::inverse_sqrt},
     {"cosine", ScheduleKind::cosine},
     {"constant", ScheduleKind::constant}}};
constexpr std::array<std::pair<std::string_view, EarlyStopMetric>, 2> kMetrics{
    {{"bleu", EarlyStopMetric::bleu}, {"loss", EarlyStopMetric::loss}}};

// What decides the weights, and what does not.
enum class Effect { weights, none };

// Every option once: setting, listing and comparing all go through here.
template <class Options, class Visit>
void visit_fields(Options& o, const Visit& visit) {
  visit("batch_tokens", o.batch_tokens, Effect::weights);
  visit("accumulate", o.accumulate, Effect::weights);
  visit("max_length", o.max_length, Effect::weights);
  visit("recompute", o.recompute, Effect::none);
  visit("sort_window", o.sort_window, Effect::weights);
  visit("label_smoothing", o.label_smoothing, Effect::weights);
  visit("beta1", o.adam.beta1, Effect::weights);
  visit("beta2", o.adam.beta2, Effect::weights);
  visit("epsilon", o.adam.epsilon, Effect::weights);
  visit("weight_decay", o.adam.weight_decay, Effect::weights);
  visit("clip_norm", o.optimizer.clip_norm, Effect::weights);
  visit("average_decay", o.optimizer.average_decay, Effect::weights);
  visit("average_last", o.average_last, Effect::weights);
  visit("schedule", o.schedule.kind, Effect::weights);
  visit("learning_rate", o.schedule.learning_rate, Effect::weights);
  visit("minimum_learning_rate", o.schedule.minimum, Effect::weights);
  visit("warmup_steps", o.schedule.warmup_steps, Effect::weights);
  visit("schedule_factor", o.schedule.factor, Effect::weights);
  visit("schedule_steps", o.schedule.total_steps, Effect::weights);
  visit("max_epochs", o.max_epochs, Effect::none);
  visit("max_steps", o.max_steps, Effect::none);
  visit("max_minutes", o.max_minutes, Effect::none);
  visit("validate_every", o.validate_every, Effect::none);
  visit("bleu_every", o.bleu_every, Effect::none);
  visit("bleu_sentences", o.bleu_sentences, Effect::none);
  visit("bleu_beam", o.bleu_beam, Effect::none);
  visit("patience", o.patience, Effect::none);
  visit("best_by", o.best_by, Effect::weights);
  visit("checkpoint_every", o.checkpoint_every, Effect::none);
  visit("checkpoint_minutes", o.checkpoint_minutes, Effect::none);
  visit("keep_checkpoints", o.keep_checkpoints, Effect::none);
  visit("log_every", o.log_every, Effect::none);
  visit("seed", o.seed, Effect::weights);
}

template <class Names>
std::string list(const Names& names) {
  std::string text;
  for (const auto& [name, value] : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

template <class Names, class Value>
void parse_name(const Names& names, std::string_view field, std::string_view text, Value& value) {
  for (const auto& [name, meaning] : names) {
    if (name == text) {
      value = meaning;
      return;
    }
  }
  throw UsageError(concat(field, ": expected one of ", list(names), ", found \"", text, "\""));
}

void parse(std::string_view field, std::string_view text, ScheduleKind& value) {
  parse_name(kSchedules, field, text, value);
}
void parse(std::string_view field, std::string_view text, EarlyStopMetric& value) {
  parse_name(kMetrics, field, text, value);
}
void parse(std::string_view field, std::string_view text, bool& value) {
  if (text != "true" && text != "false")
    throw UsageError(concat(field, ": expected true or false, found \"", text, "\""));
  value = text == "true";
}
template <class Number>
void parse(std::string_view field, std::string_view text, Number& value) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() ||
      !std::isfinite(static_cast<double>(number))) {
    throw UsageError(concat(field, ": expected ", std::is_integral_v<Number> ? "a whole number" : "a number",
                            ", found \"", text, "\""));
  }
  value = number;
}

template <class Names, class Value>
std::string name_of(const Names& names, Value value) {
  for (const auto& [name, meaning] : names) {
    if (meaning == value) return std::string(name);
  }
  return {};
}
std::string print(ScheduleKind value) { return name_of(kSchedules, value); }
std::string print(EarlyStopMetric value) { return name_of(kMetrics, value); }
std::string print(bool value) { return value ? "true" : "false"; }
template <class Number>
std::string print(Number value) {
  std::array<char, 64> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), result.ptr);
}

template <class Number>
void require(std::string_view name, Number value, bool holds, std::string_view expected) {
  if (!holds) throw UsageError(concat(name, ": expected ", expected, ", found ", value));
}

}  // namespace

bool set_field(TrainOptions& options, std::string_view name, std::string_view value) {
  bool found = false;
  visit_fields(options, [&](std::string_view field, auto& member, Effect) {
    if (field != name) return;
    parse(field, value, member);
    found = true;
  });
  return found;
}

std::vector<std::pair<std::string, std::string>> fields(const TrainOptions& options) {
  std::vector<std::pair<std::string, std::string>> result;
  visit_fields(options, [&](std::string_view field, const auto& member, Effect) {
    result.emplace_back(field, print(member));
  });
  return result;
}

bool may_change(std::string_view name) {
  bool result = false;
  TrainOptions options;
  visit_fields(options, [&](std::string_view field, auto&, Effect effect) {
    if (field == name) result = effect == Effect::none;
  });
  return result;
}

void TrainOptions::validate() const {
  require("batch_tokens", batch_tokens, batch_tokens >= 1, "1 or more");
  require("accumulate", accumulate, accumulate >= 1, "1 or more");
  require("max_length", max_length, max_length >= 1, "1 or more");
  require("sort_window", sort_window, sort_window >= 1, "1 or more");
  require("label_smoothing", label_smoothing, label_smoothing >= 0 && label_smoothing < 1, "0 to below 1");
  require("beta1", adam.beta1, adam.beta1 >= 0 && adam.beta1 < 1, "0 to below 1");
  require("beta2", adam.beta2, adam.beta2 >= 0 && adam.beta2 < 1, "0 to below 1");
  require("epsilon", adam.epsilon, adam.epsilon > 0, "more than 0");
  require("weight_decay", adam.weight_decay, adam.weight_decay >= 0, "0 or more");
  require("clip_norm", optimizer.clip_norm, optimizer.clip_norm >= 0, "0 or more");
  require("average_decay", optimizer.average_decay,
          optimizer.average_decay >= 0 && optimizer.average_decay < 1, "0 to below 1");
  require("average_last", average_last, average_last >= 0, "0 or more");
  require("max_epochs", max_epochs, max_epochs >= 0, "0 or more");
  require("max_steps", max_steps, max_steps >= 0, "0 or more");
  require("max_minutes", max_minutes, max_minutes >= 0, "0 or more");
  require("validate_every", validate_every, validate_every >= 0, "0 or more");
  require("bleu_every", bleu_every, bleu_every >= 0, "0 or more");
  require("bleu_sentences", bleu_sentences, bleu_sentences >= 0, "0 or more");
  require("bleu_beam", bleu_beam, bleu_beam >= 1 && bleu_beam <= 64, "1 to 64");
  require("patience", patience, patience >= 0, "0 or more");
  require("checkpoint_every", checkpoint_every, checkpoint_every >= 0, "0 or more");
  require("checkpoint_minutes", checkpoint_minutes, checkpoint_minutes >= 0, "0 or more");
  require("keep_checkpoints", keep_checkpoints, keep_checkpoints >= 1, "1 or more");
  require("log_every", log_every, log_every >= 1, "1 or more");
  if (max_epochs == 0 && max_steps == 0 && max_minutes == 0) {
    throw UsageError("limits: expected max_epochs, max_steps or max_minutes, found none");
  }
  if (average_last > 0 && optimizer.average_decay > 0) {
    throw UsageError(concat("average_last = ", average_last, " and average_decay = ", optimizer.average_decay,
                            ": expected one of them to be 0"));
  }
  ScheduleOptions resolved = schedule;
  if (resolved.total_steps == 0) resolved.total_steps = max_steps;
  resolved.validate();
}

}  // namespace qkv::train
