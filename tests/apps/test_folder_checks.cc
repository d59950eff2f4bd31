#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/kernels/instruction_set.h"
#include "qkv/pipelines/proof/proof.h"
#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kHub = fs::path(QKV_TEST_DATA) / "apps/golden/hub";

class FolderChecks : public ::testing::Test {
 protected:
  FolderChecks() : folder_((scratch_ / "model").string()) {
    const Outcome outcome =
        run_qkv({"quantize", (kHub / "opus-mt-en-de").string(), "--dtype", "bf16", "--out", folder_});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  void flip_a_bit() const {
    const fs::path weights = fs::path(folder_) / "model.safetensors";
    std::string bytes = read_file(weights);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file_atomically(weights, bytes);
  }

  // Stdout lists all differences, stderr the first.
  static void expect_difference(const Outcome& outcome, const std::string& part) {
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_NE(outcome.out.find(part), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  }

  Scratch scratch_;
  std::string folder_;
};

TEST_F(FolderChecks, InspectVerifiesTheWeights) {
  const Outcome good = run_qkv({"inspect", folder_, "--verify"});
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_NE(good.out.find("tensors match their checksums"), std::string::npos) << good.out;
  const Outcome foreign = run_qkv({"inspect", (kHub / "gpt2").string(), "--verify"});
  EXPECT_EQ(foreign.status, 0) << foreign.err;
  EXPECT_NE(foreign.out.find("model.safetensors: carries no checksums"), std::string::npos) << foreign.out;

  flip_a_bit();
  expect_difference(run_qkv({"inspect", folder_, "--verify"}),
                    "model.safetensors: differs from its checksum: ");
  const Outcome printed = run_qkv({"inspect", folder_, "--verify", "--json"});
  EXPECT_EQ(printed.status, 1);
  const json report = json::parse(printed.out);
  EXPECT_EQ(report["good"], false);
  EXPECT_EQ(report["files"][0]["differing"].size(), 1u);
  EXPECT_GT(report["files"][0]["matching"], 10);
}

TEST_F(FolderChecks, SelfTestNamesWhatHasChanged) {
  const Outcome good = run_qkv({"self-test", folder_});
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_NE(good.out.find("numbers: 2 outputs have the same bits"), std::string::npos) << good.out;
  flip_a_bit();
  expect_difference(run_qkv({"self-test", folder_}), "its bytes do not match their checksum");
  const Outcome printed = run_qkv({"self-test", folder_, "--json"});
  EXPECT_EQ(printed.status, 1);
  EXPECT_EQ(json::parse(printed.out)["good"], false);
  expect_failure(run_qkv({"self-test", (kHub / "gpt2").string()}), 1,
                 {"qkv_proof.json", "expected the proof"});
  expect_failure(run_qkv({"self-test", "/nonexistent"}), 1,
                 {"model folder /nonexistent: there is no such folder"});
}

// Numbers of other instruction sets are within what rounding can do.
TEST_F(FolderChecks, SelfTestHoldsWithEachInstructionSet) {
  const std::string full = (scratch_ / "f32").string();
  write_random_model(full, scratch_.path());
  ASSERT_TRUE(pipelines::write_proof(full));
  int64_t others = 0;
  for (const kernels::InstructionSet set : kernels::instruction_sets()) {
    for (const std::string& folder : {full, folder_}) {
      const Outcome outcome =
          run_qkv({"self-test", folder}, {.environment = concat("QKV_ISA=", kernels::name_of(set))});
      EXPECT_EQ(outcome.status, 0) << kernels::name_of(set) << ": " << outcome.err;
      others += outcome.out.find("of the rounding bound") != std::string::npos;
    }
  }
  EXPECT_EQ(others, 2 * (std::ssize(kernels::instruction_sets()) - 1))
      << "all but the one that wrote the proofs";
}

}  // namespace
}  // namespace qkv::testing
