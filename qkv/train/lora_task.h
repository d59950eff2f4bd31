#pragma once
// Any task, trained by LoRA (Hu et al. 2022): the model's weights are frozen, and low-rank updates of the
// projections of its layers are trained instead, beside a new head. The run's folder becomes an adapter.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qkv/nn/low_rank.h"
#include "qkv/train/task.h"

namespace qkv::train {

struct LoraOptions {
  int64_t rank = 0;                       // 0: no LoRA, all weights are trained
  float alpha = 16;                       // the update is alpha / rank * B A
  std::string targets = "q_proj,v_proj";  // names of projections, separated by commas
  DType dtype = DType::f32;               // of the frozen weights: f32, bf16, f16 or i8

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
  nn::LowRankOptions low_rank() const;
};

// The message of the UsageError for a run of this task that starts from no model folder.
std::string lora_without_start(const std::string& task);

// The task decides what starts a run (Task::initialise()), what a head is (Task::is_head()), and how an
// adapter is written (Task::export_adapter()). The frozen weights are not part of checkpoints: a resumed run
// reads the base model's folder again, whose checksum is a field of the run.
class LoraTask : public Task {
 public:
  // Initialises the task's model and moves it to the device. Throws UsageError for options out of range, for
  // a task without a base model (Task::base_folder()), and for projections that the model lacks.
  LoraTask(std::unique_ptr<Task> task, const LoraOptions& options, uint64_t seed, Device device);

  TaskInfo info() const override { return task_->info(); }
  std::vector<Field> fields() const override;
  void visit(const nn::ParameterVisitor& visitor) const override;
  void initialise(uint64_t seed) override;
  // The task's: an update belongs to the group of its weight, as its name begins with the same layer.
  std::vector<optim::ParameterGroup> parameter_groups() const override { return task_->parameter_groups(); }
  std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const override {
    return task_->batches(seed, from);
  }
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override {
    return task_->loss(batch, step, context);
  }
  std::vector<Metric> metrics() const override { return task_->metrics(); }
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override {
    return task_->evaluate(request);
  }
  int64_t items_within(double seconds, const EvaluationRequest& request) const override {
    return task_->items_within(seconds, request);
  }
  double evaluation_passes() const override { return task_->evaluation_passes(); }
  void begin(const std::filesystem::path& folder) const override { task_->begin(folder); }
  void export_model(const std::filesystem::path& folder) const override {
    task_->export_adapter(folder, *adapter_);
  }

 private:
  std::unique_ptr<Task> task_;
  LoraOptions options_;
  std::string base_checksum_;
  std::optional<nn::LowRankAdapter> adapter_;
};

}  // namespace qkv::train
