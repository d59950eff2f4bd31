#pragma once
// Devices: the location of a tensor's memory and the backend that computes on it.

#include <array>
#include <cstdint>
#include <string_view>

namespace qkv {

// cpu is the host. reference computes with naive loops in double precision, in memory that only its kernels
// can access: it checks numerical results, and that other code never touches device memory. cuda is the first
// NVIDIA GPU.
enum class Device : uint8_t { cpu, reference, cuda };
inline constexpr std::array kDevices{Device::cpu, Device::reference, Device::cuda};

// "cpu", "reference", "cuda".
const char* name_of(Device device);
// The inverse of name_of(). Throws UsageError for an unknown name.
Device device_named(std::string_view name);

}  // namespace qkv
