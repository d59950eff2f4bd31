#include "qkv/train/task.h"

namespace qkv::train {

BatchSize& BatchSize::operator+=(const BatchSize& other) {
  items += other.items;
  units += other.units;
  labels += other.labels;
  return *this;
}

std::optional<double> Evaluation::value(const std::string& name) const {
  if (name == "loss") return loss;
  const auto found = metrics.find(name);
  if (found == metrics.end()) return std::nullopt;
  return found->second;
}

void Task::export_adapter(const std::filesystem::path& /*folder*/,
                          const nn::LowRankAdapter& /*adapter*/) const {
  throw UsageError(concat("lora.rank: expected 0 in the task ", info().name, ", which writes no adapters"));
}

}  // namespace qkv::train
