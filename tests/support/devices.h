#pragma once
// Tests that run on every device.

#include <gtest/gtest.h>

#include <cstdlib>

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

// Whether the tests have the backend. That of cuda is the kernels' source compiled for the host, unless
// QKV_CUDA_LIBRARY names another library.
inline bool has_backend(Device device) {
  if (device == Device::reference) return kHasReference;
  if (device != Device::cuda) return true;
#ifdef QKV_CUDA_ON_HOST
  static const bool named = setenv("QKV_CUDA_LIBRARY", QKV_CUDA_ON_HOST, 0) == 0;
  return named;
#else
  return std::getenv("QKV_CUDA_LIBRARY") != nullptr;
#endif
}

// Runs test(device) once for each device, for reference with a queue as well.
template <class Test>
void for_each_device(const Test& test) {
  for (const Device device : kDevices) {
    if (!has_backend(device)) continue;
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
