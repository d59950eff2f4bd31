#include "qkv/nn/weights_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/io/safetensors.h"
#include "qkv/nn/linear.h"
#include "tests/support/scratch.h"

namespace qkv::nn {
namespace {

using testing::message_of;
using testing::Scratch;

struct TwoLayers {
  explicit TwoLayers(int64_t width)
      : lower({.inputs = 3, .outputs = width}), upper({.inputs = width, .outputs = 1}) {}
  void visit(const ParameterVisitor& visitor) const {
    visit_part(visitor, "lower", lower);
    visit_part(visitor, "upper", upper);
  }
  Linear lower, upper;
};

TEST(WeightsFile, RoundTrips) {
  const Scratch scratch;
  const TwoLayers saved(4), loaded(4);
  EXPECT_THROW(save(saved, scratch / "none"), UsageError) << "no numbers yet";
  initialise(saved, 5);
  save(saved, scratch / "weights");
  load(loaded, scratch / "weights");
  const auto a = parameters_of(saved), b = parameters_of(loaded);
  ASSERT_EQ(a.size(), 4u);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    const Tensor &x = a[i].parameter.variable.value(), &y = b[i].parameter.variable.value();
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.bytes()), 0) << a[i].name;
  }
}

TEST(WeightsFile, NamesAllDifferences) {
  const Scratch scratch;
  const TwoLayers module(4), wider(5);
  initialise(module, 1);
  initialise(wider, 2);
  const float before = module.lower.weight().variable.value().data()[0];
  save(wider, scratch / "wider");
  EXPECT_EQ(
      message_of<DataError>([&] { load(module, scratch / "wider"); }),
      (scratch / "wider").string() +
          ": expected the weights of this module; different: lower.weight (expected [4, 3], found [5, 3]), "
          "lower.bias (expected [4], found [5]), upper.weight (expected [1, 4], found [1, 5])");
  save(module.lower, scratch / "part");
  EXPECT_EQ(message_of<DataError>([&] { load(module, scratch / "part"); }),
            (scratch / "part").string() +
                ": expected the weights of this module; missing: lower.weight, lower.bias, upper.weight, "
                "upper.bias; "
                "not in the module: bias, weight");
  io::write_safetensors(scratch / "integers",
                        {{"weight", Tensor::zeros({4, 3}, DType::i32)}, {"bias", Tensor::full({4}, 1)}});
  EXPECT_NE(message_of<DataError>([&] { load(module.lower, scratch / "integers"); }).find("found I32"),
            std::string::npos);
  EXPECT_THROW(load(module, scratch / "nowhere"), IoError);
  EXPECT_EQ(module.lower.weight().variable.value().data()[0], before) << "changed all the same";
}

TEST(NamedParameters, FindsTheFirstNonFiniteOne) {
  const TwoLayers module(4);
  initialise(module, 3);
  EXPECT_EQ(first_non_finite(parameters_of(module)), "");
  Variable bias = module.lower.bias().variable;
  bias.mutable_value().data()[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(first_non_finite(parameters_of(module)), "lower.bias");
}

}  // namespace
}  // namespace qkv::nn
