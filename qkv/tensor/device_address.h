#pragma once
// Addresses on a device.

namespace qkv {

namespace kernels {
class DeviceAccess;
}

// The address of elements on a device. It can be held and compared, but not dereferenced: only kernels and
// backends see the pointer (qkv/kernels/backend/device_access.h, which no other layer may include).
template <class T>
class DeviceAddress {
 public:
  DeviceAddress() = default;  // null
  explicit DeviceAddress(T* address) : address_(address) {}
  bool operator==(const DeviceAddress&) const = default;

 private:
  friend class kernels::DeviceAccess;
  T* address_ = nullptr;
};

}  // namespace qkv
