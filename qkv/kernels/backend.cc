#include "qkv/kernels/backend.h"

#include "qkv/base/error.h"
#include "qkv/kernels/dispatch.h"

namespace qkv::kernels {

const Backend& backend(Device device) {
  if (device == Device::cpu) return cpu_backend();
  if (device == Device::reference) return reference_backend();
  if (is_cuda(device)) return cuda_backend(cuda_index(device));
  throw UsageError("device: expected one of kDevices, found an unknown one");
}

void throw_devices_differ(const char* kernel, const Tensor& a, const Tensor& b) {
  throw UsageError(concat(kernel, ": expected tensors on one device, found ", a.shape(), " on ",
                          name_of(a.device()), " and ", b.shape(), " on ", name_of(b.device())));
}

namespace {

// Registers the backends' memory, which tensors then find by device.
const bool memory_is_set = [] {
  set_device_memory([](Device device) -> DeviceMemory& { return *backend(device).memory(); });
  return true;
}();

}  // namespace
}  // namespace qkv::kernels
