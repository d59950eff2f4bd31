#include "qkv/train/lora_task.h"

#include <cmath>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"
#include "qkv/models/hub/adapters/adapter.h"
#include "qkv/ops/quantize.h"

namespace qkv::train {
namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

nn::LowRankOptions LoraOptions::low_rank() const {
  return {.rank = rank, .alpha = alpha, .targets = split(targets)};
}

void LoraOptions::validate() const {
  if (rank != 0) low_rank().validate();
}

std::string lora_without_start(const std::string& task) {
  return concat(
      "lora.rank: expected a run that starts from a model folder (model.from), as LoRA updates a trained "
      "model, found ",
      task, " without one");
}

LoraTask::LoraTask(std::unique_ptr<Task> task, const LoraOptions& options, uint64_t seed, Device device)
    : task_(std::move(task)), options_(options) {
  const std::filesystem::path base = task_->base_folder();
  if (base.empty()) throw UsageError(lora_without_start(task_->info().name));
  base_checksum_ = models::base_checksum(base);
  task_->initialise(seed);
  task_->visit([&](const std::string& name, const nn::Parameter& parameter) {
    if (task_->is_head(name)) return;
    parameter.variable.set_requires_grad(false);
    if (options_.dtype != DType::f32 && parameter.allows_quantized())
      parameter.set_value(to_dtype(parameter.weight().value(), options_.dtype));
  });
  nn::move_to(*task_, device);
  adapter_.emplace(nn::parameters_of(*task_), options_.low_rank());
  task_->require_exportable(*adapter_);
}

std::vector<Field> LoraTask::fields() const {
  std::vector<Field> all = task_->fields();
  all.push_back({"base.fingerprint", base_checksum_});
  return all;
}

void LoraTask::visit(const nn::ParameterVisitor& visitor) const {
  task_->visit([&](const std::string& name, const nn::Parameter& parameter) {
    if (task_->is_head(name)) visitor(name, parameter);
  });
  adapter_->visit(visitor);
}

void LoraTask::initialise(uint64_t seed) {
  // The constructor has initialised the model.
  nn::initialise(*adapter_, seed);
}

}  // namespace qkv::train
