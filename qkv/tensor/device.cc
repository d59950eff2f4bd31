#include "qkv/tensor/device.h"

#include <atomic>

#include "qkv/base/error.h"
#include "qkv/tensor/device_memory.h"

namespace qkv {
namespace {

FindDeviceMemory find_device_memory = nullptr;
std::atomic<int64_t> waits = 0;

}  // namespace

const char* name_of(Device device) {
  switch (device) {
    case Device::cpu:
      return "cpu";
    case Device::reference:
      return "reference";
    case Device::cuda:
      return "cuda";
  }
  return "unknown";
}

Device device_named(std::string_view name) {
  for (const Device device : kDevices) {
    if (name == name_of(device)) return device;
  }
  throw UsageError(concat("device: expected cpu, reference or cuda, found \"", name, "\""));
}

DeviceMemory& device_memory(Device device) {
  if (find_device_memory == nullptr)
    throw UsageError(concat("device ", name_of(device), ": this program has no kernels"));
  return find_device_memory(device);
}

int64_t device_waits() { return waits.load(std::memory_order_relaxed); }
void count_device_wait() { waits.fetch_add(1, std::memory_order_relaxed); }

void set_device_memory(FindDeviceMemory find) { find_device_memory = find; }

}  // namespace qkv
