#pragma once
// Tests that run on every device.

#include <gtest/gtest.h>

#include "qkv/ops/variable.h"
#include "qkv/tensor/tensor.h"

namespace qkv::testing {

// Runs test(device) once for each device that the build has.
template <class Test>
void for_each_device(const Test& test) {
  for (const Device device : kDevices) {
#ifdef QKV_WITHOUT_REFERENCE
    if (device == Device::reference) continue;
#endif
    SCOPED_TRACE(name_of(device));
    test(device);
  }
}

// A leaf with a gradient and these values, on the device.
inline Variable parameter_on(Device device, const Tensor& host) {
  return Variable::parameter(from_host(host, device));
}

}  // namespace qkv::testing
