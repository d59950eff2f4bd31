// --device: the reference device gives the same results as the CPU.

#include "tests/apps/json_results.h"
#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

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
  expect_same_on_both("fill-mask %bert_masked", "a [MASK] dog\n");
}

#endif

TEST_F(DeviceOption, NamesTheDevices) {
  expect_refused("embed %bert_base --device cuda", 2,
                 {"--device: expected one of cpu, reference, found 'cuda'"}, "a\n");
}

}  // namespace
}  // namespace qkv::testing
