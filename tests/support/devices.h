#pragma once
// Tests that run on every device.

#include <gtest/gtest.h>

#ifndef QKV_WITHOUT_REFERENCE
#include "qkv/kernels/reference/stream.h"
#endif
#include "qkv/ops/variable.h"
#include "qkv/tensor/tensor.h"

namespace qkv::testing {

// Whether the build has the reference backend.
#ifdef QKV_WITHOUT_REFERENCE
inline constexpr bool kHasReference = false;
#else
inline constexpr bool kHasReference = true;
#endif

// While it lives, work on the reference device waits in a queue until the host copies a result, as on a GPU.
class QueuedReference {
 public:
  QueuedReference() { set(true); }
  ~QueuedReference() { set(false); }
  QueuedReference(const QueuedReference&) = delete;
  QueuedReference& operator=(const QueuedReference&) = delete;

 private:
#ifdef QKV_WITHOUT_REFERENCE
  static void set(bool /*queued*/) {}
#else
  static void set(bool queued) { kernels::reference::stream().set_queued(queued); }
#endif
};

// Runs test(device) once for each device that the build has, for reference with a queue as well.
template <class Test>
void for_each_device(const Test& test) {
  for (const Device device : kDevices) {
    if (device == Device::reference && !kHasReference) continue;
    SCOPED_TRACE(name_of(device));
    test(device);
  }
  if (!kHasReference) return;
  SCOPED_TRACE("reference, queued");
  const QueuedReference queued;
  test(Device::reference);
}

// A leaf with a gradient and these values, on the device.
inline Variable parameter_on(Device device, const Tensor& host) {
  return Variable::parameter(from_host(host, device));
}

}  // namespace qkv::testing
