#include "qkv/train/task.h"

#include "qkv/kernels/pointwise.h"

namespace qkv::train {

BatchSize& BatchSize::operator+=(const BatchSize& other) {
  items += other.items;
  units += other.units;
  labels += other.labels;
  return *this;
}

CurveSum::CurveSum(const Variable& sum) {
  Tensor bits = Tensor::empty({1}, DType::i64, sum.value().device());
  kernels::total(sum.value(), 1, bits, 0);
  terms_.push_back({bits, 1});
}

CurveSum& CurveSum::operator+=(const CurveSum& other) {
  known_ += other.known_;
  terms_.insert(terms_.end(), other.terms_.begin(), other.terms_.end());
  return *this;
}

CurveSum& CurveSum::operator*=(double factor) {
  known_ *= factor;
  for (Term& term : terms_) term.factor *= factor;
  return *this;
}

void CurveSum::append_to(std::vector<Tensor>& bits) const {
  for (const Term& term : terms_) bits.push_back(term.bits);
}

double CurveSum::value(std::span<const double>& found) const {
  double sum = known_;
  for (size_t i = 0; i < terms_.size(); ++i) sum += terms_[i].factor * found[i];
  found = found.subspan(terms_.size());
  return sum;
}

std::vector<CurveShare> take(const std::vector<BatchCurve>& curves, std::span<const double>& found) {
  std::vector<CurveShare> shares;
  for (const BatchCurve& curve : curves) shares.push_back({curve.name, curve.sum.value(found), curve.count});
  return shares;
}

std::vector<CurveShare> read(const std::vector<BatchCurve>& curves) {
  std::vector<Tensor> bits;
  for (const BatchCurve& curve : curves) curve.sum.append_to(bits);
  const std::vector<double> all = kernels::doubles(bits);
  std::span<const double> found = all;
  return take(curves, found);
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
