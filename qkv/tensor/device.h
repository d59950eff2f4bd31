#pragma once
// Devices: where a tensor's memory lies and which backend computes on it.

#include <array>
#include <cstdint>
#include <string_view>

namespace qkv {

// cpu is the host. reference computes with naive loops in double precision, in memory that code outside its
// kernels cannot read: for checking numbers, and that such code keeps to its side.
enum class Device : uint8_t { cpu, reference };
inline constexpr std::array kDevices{Device::cpu, Device::reference};

// "cpu", "reference".
const char* name_of(Device device);
// The inverse. Throws UsageError for another name.
Device device_named(std::string_view name);

}  // namespace qkv
