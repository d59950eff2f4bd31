#pragma once

#include "qkv/tensor/device_address.h"

namespace qkv::kernels {

// Unwraps addresses for kernels; the test `layers` checks that no other layer does.
class DeviceAccess {
 public:
  template <class T>
  static T* pointer(DeviceAddress<T> address) {
    return address.address_;
  }
};

}  // namespace qkv::kernels
