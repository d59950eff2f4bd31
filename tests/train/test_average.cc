#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/weights_file.h"
#include "qkv/train/average.h"
#include "tests/support/scratch.h"

namespace qkv::train {
namespace {

using testing::expect_throw;
using testing::Scratch;

TEST(Average, IsTheMeanOfTheFiles) {
  const Scratch scratch;
  const nn::Linear module({.inputs = 2, .outputs = 3});
  std::vector<std::filesystem::path> files;
  std::vector<double> sum(6, 0.0);
  for (const uint64_t seed : {1u, 2u, 3u}) {
    nn::initialise(module, seed);
    for (size_t i = 0; i < 6; ++i) sum[i] += module.weight().variable.value().data()[i];
    files.push_back(scratch / std::to_string(seed));
    nn::save(module, files.back());
  }
  const std::vector<Tensor> means = average_weights(files, nn::parameters_of(module));
  ASSERT_EQ(means.size(), 2u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(means[0].data()[i], static_cast<float>(sum[i] / 3));

  const nn::Linear larger({.inputs = 2, .outputs = 4});
  nn::initialise(larger, 1);
  expect_throw<DataError>("weight", [&] { average_weights(files, nn::parameters_of(larger)); });
  expect_throw<UsageError>("none", [&] { average_weights({}, nn::parameters_of(module)); });
}

}  // namespace
}  // namespace qkv::train
