#include "qkv/tensor/device.h"

#include <gtest/gtest.h>

#include "qkv/tensor/tensor.h"

namespace qkv {
namespace {

TEST(Device, HasAName) {
  for (const Device device : kDevices) EXPECT_EQ(device_named(name_of(device)), device);
  try {
    device_named("gpu");
    FAIL() << "expected an error";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "device: expected cpu, reference or cuda, found \"gpu\"");
  }
}

TEST(Device, OnlyTheHostWithoutKernels) {
  const Tensor x = Tensor::full({2, 3}, 1.5f);
  EXPECT_EQ(x.device(), Device::cpu);
  EXPECT_EQ(to_host(x).data(), x.data());
  EXPECT_EQ(from_host(x, Device::cpu).data(), x.data());
  EXPECT_EQ(empty_like(x).shape(), x.shape());
  try {
    from_host(x, Device::reference);
    FAIL() << "expected an error";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "device reference: this program has no kernels");
  }
}

}  // namespace
}  // namespace qkv
