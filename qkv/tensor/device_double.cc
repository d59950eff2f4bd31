#include "qkv/tensor/device_double.h"

#include <bit>

namespace qkv {
namespace {

std::vector<double> doubles(const Tensor& there) {
  const Tensor host = to_host(there);
  std::vector<double> values;
  for (const int64_t bits : host.values<int64_t>()) values.push_back(std::bit_cast<double>(bits));
  return values;
}

}  // namespace

std::vector<DeviceDouble> DeviceDouble::all(const Tensor& there) {
  if (there.device() == Device::cpu) {
    const std::vector<double> known = doubles(there);
    return {known.begin(), known.end()};
  }
  std::vector<DeviceDouble> all(static_cast<size_t>(there.numel()));
  const auto results = std::make_shared<Results>(Results{there, {}});
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].results_ = results;
    all[i].index_ = i;
  }
  return all;
}

double DeviceDouble::value() const {
  if (results_ == nullptr) return known_;
  if (results_->here.empty()) results_->here = doubles(results_->there);
  return results_->here[index_];
}

}  // namespace qkv
