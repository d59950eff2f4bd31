// --device: the reference device gives the same results as the CPU.

#include <utility>

#include "tests/apps/json_results.h"
#include "tests/apps/random_model.h"
#include "tests/apps/run.h"
#include "tests/support/environment.h"

namespace qkv::testing {
namespace {

class DeviceOption : public CommandTest {
 protected:
  std::vector<nlohmann::json> run_on(const std::string& device, const std::string& line,
                                     const std::string& input) const {
    return json_lines(output(concat(line, " --json --device ", device), input));
  }
  void expect_same_on_both(const std::string& line, const std::string& input) const {
    const auto found = run_on("reference", line, input), expected = run_on("cpu", line, input);
    ASSERT_EQ(found.size(), expected.size());
    ASSERT_FALSE(found.empty());
    for (size_t i = 0; i < found.size(); ++i)
      expect_same(found[i], expected[i], concat(line, ", line ", i + 1));
  }
};

#ifdef QKV_WITHOUT_REFERENCE

TEST_F(DeviceOption, NamesABackendThatTheBuildLacks) {
  expect_refused("embed %bert_base --device reference", 2,
                 {"device reference: this build has no reference backend (QKV_REFERENCE_BACKEND is off)"},
                 "a\n");
}

#else

TEST_F(DeviceOption, TranslatesToTheSameText) {
  write_random_model(scratch_ / "model", scratch_.path());
  expect_same_on_both("translate @/model --scores --beam 3", "forty-two\nseven\n\nnine hundred\n");
  expect_same_on_both("translate @/model --scores --seed 5", "forty-two\nseven\n");
}

TEST_F(DeviceOption, GivesTheSameVectorsAndProbabilities) {
  expect_same_on_both("embed %bert_base", "a red dog\nthe sun\n");
  expect_same_on_both("embed %bert_masked --sparse", "a red dog\nthe sun\n");
  expect_same_on_both("fill-mask %bert_masked", "a [MASK] dog\n");
}

TEST_F(DeviceOption, ComputesWithActivationsInBf16) {
  const std::string line = "embed %bert_base", input = "a red dog\nthe sun\n";
  const auto found = run_on("reference --activations bf16", line, input),
             expected = run_on("reference", line, input);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NE(found, expected);
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& numbers = found[i]["vector"];
    ASSERT_GT(numbers.size(), 4u);
    for (size_t j = 0; j < numbers.size(); ++j)
      EXPECT_NEAR(numbers[j].get<double>(), expected[i]["vector"][j].get<double>(), 0.05);
  }
  EXPECT_EQ(run_on("reference --activations f32", line, input), expected);
}

#endif

TEST_F(DeviceOption, RefusesActivationsInBf16OnTheCpu) {
  expect_refused(
      "embed %bert_base --activations bf16", 2,
      {"--activations: expected f32 on the CPU, which --device auto takes without a GPU, found bf16"}, "a\n");
  expect_refused("embed %bert_base --activations f16", 2, {"--activations", "f32", "bf16"}, "a\n");
}

TEST_F(DeviceOption, NamesTheDevices) {
  expect_refused("embed %bert_base --device gpu", 2,
                 {"--device: expected cpu, cuda, cuda:N with N below 8, auto or reference, found 'gpu'"},
                 "a\n");
}

TEST_F(DeviceOption, NamesTheLibraryThatCudaNeeds) {
  Environment environment;
  environment.set({{"QKV_CUDA_LIBRARY", "/nowhere/libqkv_cuda.so"}});
  EXPECT_EQ(run_on("auto", "embed %bert_base", "a\n"), run_on("cpu", "embed %bert_base", "a\n"));
  expect_refused("embed %bert_base --device cuda", 2,
                 {"device cuda: expected qkv's library for CUDA (scripts/build cuda), found none: "
                  "/nowhere/libqkv_cuda.so: cannot open shared object file"},
                 "a\n");
  environment.set({{"QKV_CUDA_LIBRARY", "libc.so.6"}});
  expect_refused("embed %bert_base --device cuda", 2,
                 {"device cuda: libc.so.6: expected the library of this build, found another"}, "a\n");
}

#ifdef QKV_CUDA_ON_HOST

// The CUDA kernels, compiled for the host.
TEST_F(DeviceOption, ComputesWithTheCudaKernels) {
  Environment environment;
  environment.set({{"QKV_CUDA_LIBRARY", QKV_CUDA_ON_HOST}});
  write_random_model(scratch_ / "model", scratch_.path());
  for (const auto& [line, input] :
       {std::pair("embed %bert_base", "a red dog\nthe sun\n"),
        std::pair("fill-mask %bert_masked", "a [MASK] dog\n"),
        std::pair("translate @/model --scores --beam 3", "forty-two\nseven\n\nnine hundred\n")}) {
    const auto found = run_on("cuda", line, input), expected = run_on("cpu", line, input);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      expect_same(found[i], expected[i], concat(line, ", line ", i + 1));
  }
}

#endif

}  // namespace
}  // namespace qkv::testing
