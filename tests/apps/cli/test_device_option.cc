// --device: the reference device gives the same results as the CPU.

#include "tests/apps/json_results.h"
#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

std::string folder(const std::string& name) {
  return (std::filesystem::path(QKV_TEST_DATA) / "models" / "golden" / name).string();
}

#ifdef QKV_WITHOUT_REFERENCE

TEST(DeviceOption, SaysWhatTheBuildLacks) {
  expect_failure(run_qkv({"embed", folder("bert_base"), "--device", "reference"}, {.input = "a\n"}), 2,
                 {"device reference: this build has no reference backend (QKV_REFERENCE_BACKEND is off)"});
}

#else

std::vector<nlohmann::json> run_on(const std::string& device, std::vector<std::string> arguments,
                                   const std::string& input) {
  arguments.insert(arguments.end(), {"--json", "--device", device});
  const Outcome outcome = run_qkv(arguments, {.input = input});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return json_lines(outcome.out);
}

void expect_same_on_both(const std::vector<std::string>& arguments, const std::string& input) {
  const auto found = run_on("reference", arguments, input), expected = run_on("cpu", arguments, input);
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_FALSE(found.empty());
  for (size_t i = 0; i < found.size(); ++i)
    expect_same(found[i], expected[i], concat(arguments.front(), ", line ", i + 1));
}

TEST(DeviceOption, TranslatesToTheSameText) {
  const Scratch scratch;
  write_random_model(scratch / "model", scratch.path());
  const std::string model = (scratch / "model").string();
  expect_same_on_both({"translate", model, "--scores", "--beam", "3"}, "forty-two\nseven\n\nnine hundred\n");
  expect_same_on_both({"translate", model, "--scores", "--sample", "--seed", "5"}, "forty-two\nseven\n");
}

TEST(DeviceOption, GivesTheSameVectorsAndProbabilities) {
  expect_same_on_both({"embed", folder("bert_base")}, "a red dog\nthe sun\n");
  expect_same_on_both({"fill-mask", folder("bert_masked")}, "a [MASK] dog\n");
}

#endif

TEST(DeviceOption, NamesTheDevices) {
  expect_failure(run_qkv({"embed", folder("bert_base"), "--device", "cuda"}, {.input = "a\n"}), 2,
                 {"--device: expected one of cpu, reference, found 'cuda'"});
}

}  // namespace
}  // namespace qkv::testing
