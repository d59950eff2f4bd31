#include "qkv/tensor/device.h"

#include <atomic>

#include "qkv/base/communicator.h"
#include "qkv/base/error.h"
#include "qkv/tensor/device_memory.h"

namespace qkv {
namespace {

FindDeviceMemory find_device_memory = nullptr;
std::atomic<int64_t> waits = 0;

}  // namespace

const char* name_of(Device device) {
  static constexpr std::array<const char*, static_cast<size_t>(cuda_device(kMostGpus))> kNames{
      "cpu", "reference", "cuda", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6", "cuda:7"};
  const auto index = static_cast<size_t>(device);
  return index < kNames.size() ? kNames[index] : "unknown";
}

Device device_named(std::string_view name) {
  if (name == "auto") {
    try {
      device_memory(Device::cuda);
      return Device::cuda;
    } catch (const UsageError&) {
      return Device::cpu;
    }
  }
  if (name == "cuda:0") return Device::cuda;
  for (int i = 0; i < static_cast<int>(cuda_device(kMostGpus)); ++i) {
    if (name == name_of(static_cast<Device>(i))) return static_cast<Device>(i);
  }
  throw UsageError(concat("expected cpu, cuda, cuda:N with N below ", kMostGpus,
                          ", auto or reference, found '", name, "'"));
}

Device device_of_rank(Device first, const Communicator& ranks) {
  if (!is_cuda(first)) return first;
  int index = cuda_index(first);
  for (int rank = 0; rank < ranks.rank(); ++rank)
    index += ranks.host(rank) == ranks.host(ranks.rank()) ? 1 : 0;
  if (index < kMostGpus) return cuda_device(index);
  throw UsageError(concat("device ", name_of(first), " of ", ranks.name(ranks.rank()), ": expected at most ",
                          kMostGpus, " GPUs of a machine, found cuda:", index));
}

void parse_field(std::string_view field, std::string_view text, Device& device) {
  try {
    device = device_named(text);
  } catch (const UsageError& error) {
    throw UsageError(concat(field, ": ", error.what()));
  }
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
