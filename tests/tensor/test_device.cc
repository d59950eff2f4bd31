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
    EXPECT_STREQ(error.what(), "expected cpu, cuda, cuda:N with N below 8, auto or reference, found 'gpu'");
  }
  for (int index = 0; index < kMostGpus; ++index) {
    const Device device = device_named(concat("cuda:", index));
    EXPECT_TRUE(is_cuda(device));
    EXPECT_EQ(cuda_index(device), index);
    EXPECT_EQ(device_named(name_of(device)), device);
  }
  EXPECT_EQ(cuda_device(0), Device::cuda);
  EXPECT_FALSE(is_cuda(Device::reference));
  for (const char* const name : {"cuda:8", "cuda:-1", "cuda:", "cuda:01", "CUDA", ""})
    EXPECT_THROW(device_named(name), UsageError) << name;
  EXPECT_EQ(device_named("auto"), Device::cpu) << "this program has no kernels";
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
