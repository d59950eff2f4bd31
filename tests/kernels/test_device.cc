// Tensors on a device other than the host, and the selection of a backend.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "qkv/kernels/dispatch.h"
#include "qkv/kernels/loss.h"
#include "qkv/kernels/norm.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/kernels/reference/memory.h"
#include "qkv/kernels/reference/stream.h"
#include "qkv/tensor/device_memory.h"
#include "qkv/tensor/tensor.h"
#include "tests/support/devices.h"
#include "tests/support/scratch.h"

namespace qkv {
namespace {

using qkv::testing::message_of;

Tensor numbers(const Shape& shape, float first) {
  Tensor x = Tensor::empty(shape);
  std::iota(x.values().begin(), x.values().end(), first);
  return x;
}

std::vector<float> host_values(const Tensor& x) {
  const Tensor host = to_host(x).clone();
  return {host.values().begin(), host.values().end()};
}

TEST(DeviceTensor, CopiesToTheDeviceAndBack) {
  const Tensor x = numbers({3, 5}, 1);
  Tensor there = from_host(x, Device::reference);
  EXPECT_EQ(there.device(), Device::reference);
  EXPECT_EQ(there.shape(), x.shape());
  EXPECT_TRUE(from_host(there, Device::reference).shares_memory(there));
  EXPECT_EQ(host_values(there), host_values(x));
  // Views, as source and target.
  const Tensor columns = there.columns(1, 2);
  Tensor row = there.slice_rows(2, 1);
  EXPECT_EQ(host_values(columns), (std::vector<float>{2, 3, 7, 8, 12, 13}));
  EXPECT_EQ(host_values(row), (std::vector<float>{11, 12, 13, 14, 15}));
  there.columns(3, 2).copy_from(x.columns(0, 2));
  row.columns(0, 2).fill_zero();
  EXPECT_EQ(host_values(there), (std::vector<float>{1, 2, 3, 1, 2, 6, 7, 8, 6, 7, 0, 0, 13, 11, 12}));
  // On the device.
  const Tensor copy = there.clone();
  EXPECT_EQ(copy.device(), Device::reference);
  EXPECT_FALSE(copy.shares_memory(there));
  EXPECT_EQ(host_values(copy), host_values(there));
  EXPECT_EQ(host_values(Tensor::zeros({2}, DType::f32, Device::reference)), (std::vector<float>{0, 0}));
  EXPECT_EQ(host_values(Tensor::full({2}, 2.5f, Device::reference)), (std::vector<float>{2.5f, 2.5f}));
}

TEST(DeviceTensor, ReusesFreedMemory) {
  const void* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    const Tensor x = Tensor::empty({1000}, DType::f32, Device::reference);
    if (i == 0) first = kernels::address(x);
    EXPECT_EQ(kernels::address(x), first);
  }
}

TEST(DeviceTensor, CannotBeReadOnTheHost) {
  const Tensor x = from_host(numbers({2, 2}, 1), Device::reference);
  const std::string expected =
      "data: tensor [2, 2] lies on device reference: expected one on the host (see to_host)";
  EXPECT_EQ(message_of<UsageError>([&] { x.data(); }), expected);
  EXPECT_EQ(message_of<UsageError>([&] { x.values(); }), expected);
  EXPECT_EQ(message_of<UsageError>([&] { x.reshape({4}).slice_rows(0, 1).item(); }),
            "data: tensor [1] lies on device reference: expected one on the host (see to_host)");
}

// The queue of the reference device, which stands for that of a GPU.
TEST(DeviceQueue, RunsNothingBeforeAResultIsCopied) {
  const testing::QueuedReference queued;
  const int64_t waits = device_waits();
  Tensor x = numbers({4, 2}, 1);
  const Tensor there = from_host(x, Device::reference);
  Tensor means = Tensor::empty({2, 2}, DType::f32, Device::reference);
  std::vector<int32_t> offsets{0, 1, 4};
  kernels::backend(Device::reference)
      .segment_mean({.segments = {.offsets = offsets.data(), .segments = 2, .cols = 2},
                     .x = kernels::address(there),
                     .y = kernels::address(means)});
  const float* const result = kernels::reference::readable(kernels::address(means));
  EXPECT_TRUE(std::isnan(result[0]));
  EXPECT_EQ(device_waits(), waits);
  // What the calls were given may change at once.
  x.fill_zero();
  offsets.assign(3, 0);
  EXPECT_EQ(host_values(means), (std::vector<float>{1, 2, 5, 6}));
  EXPECT_EQ(result[0], 1);
  EXPECT_EQ(device_waits(), waits + 1);
}

TEST(DeviceQueue, FreesMemoryInOrder) {
  const testing::QueuedReference queued;
  const Tensor x = from_host(numbers({1000}, 1), Device::reference);
  Tensor sum = Tensor::empty({1000}, DType::f32, Device::reference);
  {
    const Tensor copy = x.clone();
    kernels::add(x, copy, sum);
  }
  const Tensor other = Tensor::zeros({1000}, DType::f32, Device::reference);  // not in the copy's memory
  EXPECT_EQ(host_values(sum)[999], 2000);
  EXPECT_EQ(host_values(other)[999], 0);
}

TEST(DeviceQueue, ReportsAnErrorWhereTheHostWaits) {
  const testing::QueuedReference queued;
  kernels::reference::stream().submit([] { throw UsageError("a kernel has failed"); });
  const Tensor x = from_host(numbers({2}, 1), Device::reference);
  EXPECT_EQ(message_of<UsageError>([&] { host_values(x); }), "a kernel has failed");
}

TEST(DeviceTensorDeathTest, ItsMemoryIsProtected) {
  Tensor x = from_host(numbers({2, 2}, 1), Device::reference);
  volatile float* const address = kernels::address(x);
  // Sanitizers turn the signal into a report with an exit status of their own.
  EXPECT_DEATH(static_cast<void>(*address), "");
  EXPECT_DEATH(*address = 1, "");
}

TEST(Backend, FollowsTheDeviceOfTheTensors) {
  const Tensor x = numbers({4, 7}, -3), there = from_host(x, Device::reference);
  Tensor y = empty_like(x), result = empty_like(there);
  kernels::softmax(x, y);
  kernels::softmax(there, result);
  const std::vector<float> expected = host_values(y), found = host_values(result);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6f) << i;

  const Tensor weight = numbers({7}, 1), bias = numbers({7}, -2);
  kernels::norm_forward({.x = x, .weight = weight, .bias = bias, .y = y});
  kernels::norm_forward({.x = there,
                         .weight = from_host(weight, Device::reference),
                         .bias = from_host(bias, Device::reference),
                         .y = result});
  const std::vector<float> normal = host_values(y), there_too = host_values(result);
  for (size_t i = 0; i < normal.size(); ++i) EXPECT_NEAR(there_too[i], normal[i], 1e-5f) << i;
}

TEST(Backend, GpusHaveNumbers) {
  if (!testing::has_backend(Device::cuda)) GTEST_SKIP() << "needs the backend of cuda";
  EXPECT_EQ(device_named("auto"), Device::cuda);
  const Tensor x = numbers({4, 7}, 1), there = from_host(x, Device::cuda);
  EXPECT_EQ(there.device(), Device::cuda);
#ifndef QKV_CUDA_ON_HOST
  GTEST_SKIP() << "the number of GPUs is unknown";
#endif
  // The version for the host has two.
  const Device second = cuda_device(1);
  Tensor other = from_host(x, second), result = empty_like(other);
  EXPECT_EQ(result.device(), second);
  kernels::add(other, other, result);
  EXPECT_EQ(host_values(result)[3], 8);
  EXPECT_EQ(message_of<UsageError>([&] { kernels::add(there, there, result); }),
            "add: expected tensors on one device, found [4, 7] on cuda and [4, 7] on cuda:1");
  EXPECT_EQ(message_of<UsageError>([&] { other.copy_from(there); }),
            "copy: tensor [4, 7] from device cuda to cuda:1: copy it to the host first");
  std::thread([freed = std::move(other)] {}).join();
  EXPECT_EQ(message_of<UsageError>([&] { from_host(x, cuda_device(2)); }),
            "device cuda:2: expected a GPU with a number below 2");
}

TEST(Backend, RejectsTensorsOnDifferentDevices) {
  const Tensor x = numbers({4, 7}, 1);
  Tensor elsewhere = from_host(x, Device::reference);
  EXPECT_EQ(message_of<UsageError>([&] { kernels::softmax(x, elsewhere); }),
            "softmax: expected tensors on one device, found [4, 7] on cpu and [4, 7] on reference");
}

}  // namespace
}  // namespace qkv
