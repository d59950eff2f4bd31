#pragma once
// The model of make_golden.py: next-token logits are rows of a table.

#include <vector>

#include "qkv/search/search.h"

namespace qkv::search::testing {

using Table = std::vector<std::vector<std::vector<float>>>;  // [position][last token][token]

class TableStepModel : public StepModel {
 public:
  explicit TableStepModel(const Table& table) : table_(table) {}
  int64_t vocabulary() const override { return static_cast<int64_t>(table_[0].size()); }
  void admit(std::span<const std::unique_ptr<Source>>) override {}
  Tensor step(const Tensor& ids) override {
    std::vector<float> logits;
    for (const int32_t id : ids.values<int32_t>()) {
      const auto& row = table_[place_].at(static_cast<size_t>(id));
      logits.insert(logits.end(), row.begin(), row.end());
    }
    place_ = (place_ + 1) % table_.size();
    return Tensor::from(logits, {ids.numel(), static_cast<int64_t>(table_[0].size())});
  }
  void reorder(std::span<const int32_t>, const Offsets&) override {}  // a row is its last token

 private:
  const Table& table_;
  size_t place_ = 0;
};

}  // namespace qkv::search::testing
