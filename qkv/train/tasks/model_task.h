#pragma once
// The base of tasks that train one model, from random weights or from a model folder.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "qkv/models/hub/adapters/adapter.h"
#include "qkv/nn/named_parameters.h"
#include "qkv/train/task.h"
#include "qkv/train/tasks/start_folder.h"

namespace qkv::train {

template <class Model>
class ModelTask : public Task {
 public:
  const Model& model() const { return model_; }

  std::vector<Field> fields() const override {
    std::vector<Field> all = settings_;
    for (Field& field : data_fields()) all.push_back(std::move(field));
    return all;
  }
  void visit(const nn::ParameterVisitor& visitor) const override { model_.visit(visitor); }
  void initialise(uint64_t seed) override {
    if (const StartFolder* const start = start_folder()) return initialise_from(start->from(), model_, seed);
    initialise_randomly(seed);
  }
  std::filesystem::path base_folder() const override {
    const StartFolder* const start = start_folder();
    return start ? start->from() : std::filesystem::path();
  }
  void export_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter) const override {
    save(folder, adapter, {.folder = base_folder(), .task_type = adapter_type()});
  }
  void require_exportable(const nn::LowRankAdapter& adapter) const override {
    save({}, adapter, {.folder = base_folder(), .task_type = adapter_type(), .only_check = true});
  }

 protected:
  // `settings`: those of the job. Throws UsageError for an invalid configuration.
  template <class Config>
  ModelTask(const Config& config, std::vector<Field> settings)
      : settings_(std::move(settings)), model_(config) {}

 private:
  // The folder that the run starts from; null: random weights.
  virtual const StartFolder* start_folder() const = 0;
  virtual void initialise_randomly(uint64_t seed) { nn::initialise(model_, seed); }
  // Fingerprints of the data and facts found in them.
  virtual std::vector<Field> data_fields() const = 0;
  // PEFT's task_type; empty where it has none.
  virtual std::string adapter_type() const { return {}; }

  void save(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
            const models::AdapterBase& base) const {
    const auto visit_heads = [this](const nn::ParameterVisitor& visitor) {
      model_.visit([&](const std::string& name, const nn::Parameter& parameter) {
        if (is_head(name)) visitor(name, parameter);
      });
    };
    models::save_adapter(folder, adapter, visit_heads, model_, start_folder()->family(), base);
  }

  std::vector<Field> settings_;

 protected:
  Model model_;
};

}  // namespace qkv::train
