#pragma once
// Numbers in double precision that a device computes, such as sums of losses.

#include <memory>
#include <vector>

#include "qkv/tensor/tensor.h"

namespace qkv {

// A number that is known, or element i of a device's results, which are copied to the host together when the
// first of them is asked for. Copies share the results.
class DeviceDouble {
 public:
  DeviceDouble(double known = 0) : known_(known) {}  // NOLINT(google-explicit-constructor)

  // The elements of i64 [count], whose bits are those of doubles.
  static std::vector<DeviceDouble> all(const Tensor& there);

  // Waits for the device, once.
  double value() const;
  operator double() const { return value(); }  // NOLINT(google-explicit-constructor)

 private:
  struct Results {
    Tensor there;
    std::vector<double> here;
  };
  std::shared_ptr<Results> results_;
  size_t index_ = 0;
  double known_ = 0;
};

}  // namespace qkv
