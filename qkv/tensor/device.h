#pragma once
// Devices: the location of a tensor's memory and the backend that computes on it.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace qkv {

class Communicator;

// cpu is the host. reference computes with naive loops in double precision, in memory that only its kernels
// can access: it checks numerical results, and that other code never touches device memory. cuda is the first
// NVIDIA GPU, and cuda_device() another.
enum class Device : uint8_t { cpu, reference, cuda };
inline constexpr std::array kDevices{Device::cpu, Device::reference, Device::cuda};

inline constexpr int kMostGpus = 8;
constexpr Device cuda_device(int index) {
  return static_cast<Device>(static_cast<int>(Device::cuda) + index);
}
constexpr bool is_cuda(Device device) { return device >= Device::cuda && device < cuda_device(kMostGpus); }
constexpr int cuda_index(Device device) { return static_cast<int>(device) - static_cast<int>(Device::cuda); }

// "cpu", "reference", "cuda", "cuda:1".
const char* name_of(Device device);
// The inverse of name_of(); "cuda:0" is cuda, and "auto" is cuda where it can be used, else cpu. Throws
// UsageError for an unknown name.
Device device_named(std::string_view name);

// The device of a rank: of GPUs, the first rank of a machine has `first`, the next one the next GPU. Throws
// UsageError for more than kMostGpus.
Device device_of_rank(Device first, const Communicator& ranks);

// For help texts.
inline constexpr const char* kDeviceNames = "cpu|cuda[:N]|auto|reference";
inline constexpr const char* kDeviceHelp =
    "Where to compute; cuda: an NVIDIA GPU, the first or number N, with a build that has libqkv_cuda.so; "
    "auto: cuda if it can be used, else cpu; reference: plain loops in double precision, slow, for checking "
    "numbers";
inline std::string field_text(Device device) { return name_of(device); }
void parse_field(std::string_view field, std::string_view text, Device& device);

}  // namespace qkv
