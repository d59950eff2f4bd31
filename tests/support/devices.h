#pragma once
// Tests that run on every device.

#include <gtest/gtest.h>

#include "qkv/ops/variable.h"
#include "qkv/tensor/tensor.h"

namespace qkv::testing {

// Whether the build has the reference backend.
#ifdef QKV_WITHOUT_REFERENCE
inline constexpr bool kHasReference = false;
#else
inline constexpr bool kHasReference = true;
#endif

// Runs test(device) once for each device that the build has.
template <class Test>
void for_each_device(const Test& test) {
  for (const Device device : kDevices) {
    if (device == Device::reference && !kHasReference) continue;
    SCOPED_TRACE(name_of(device));
    test(device);
  }
}

// A leaf with a gradient and these values, on the device.
inline Variable parameter_on(Device device, const Tensor& host) {
  return Variable::parameter(from_host(host, device));
}

}  // namespace qkv::testing
