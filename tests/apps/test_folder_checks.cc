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

class FolderChecks : public CommandTest {
 protected:
  FolderChecks() { output("quantize %hub/opus-mt-en-de --dtype bf16 --out @/model"); }
  void flip_a_bit() const {
    const fs::path weights = scratch_ / "model/model.safetensors";
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
};

TEST_F(FolderChecks, InspectVerifiesTheWeights) {
  expect_parts(output("inspect @/model --verify"), {"tensors match their checksums"});
  expect_parts(output("inspect %hub/gpt2 --verify"), {"model.safetensors: carries no checksums"});

  flip_a_bit();
  expect_difference(run("inspect @/model --verify"), "model.safetensors: differs from its checksum: ");
  const Outcome printed = run("inspect @/model --verify --json");
  EXPECT_EQ(printed.status, 1);
  const json report = json::parse(printed.out);
  EXPECT_EQ(report["good"], false);
  EXPECT_EQ(report["files"][0]["differing"].size(), 1u);
  EXPECT_GT(report["files"][0]["matching"], 10);
}

TEST_F(FolderChecks, SelfTestNamesAChangedFile) {
  expect_parts(output("self-test @/model"), {"numbers: 2 outputs have the same bits"});
#ifndef QKV_WITHOUT_REFERENCE
  expect_parts(output("self-test @/model --device reference"), {"numbers: 2 outputs differ by at most"});
#endif
  flip_a_bit();
  expect_difference(run("self-test @/model"), "its bytes do not match their checksum");
  const Outcome printed = run("self-test @/model --json");
  EXPECT_EQ(printed.status, 1);
  EXPECT_EQ(json::parse(printed.out)["good"], false);
  expect_refused("self-test %hub/gpt2", 1, {"qkv_proof.json", "expected the proof"});
  expect_refused("self-test /nonexistent", 1, {"model folder /nonexistent: there is no such folder"});
}

// Numbers of other instruction sets are within the bound of rounding.
TEST_F(FolderChecks, SelfTestHoldsWithEachInstructionSet) {
  write_random_model(scratch_ / "f32", scratch_.path());
  ASSERT_TRUE(pipelines::write_proof(scratch_ / "f32"));
  int64_t others = 0;
  for (const kernels::InstructionSet set : kernels::instruction_sets()) {
    for (const char* line : {"self-test @/f32", "self-test @/model"}) {
      const Outcome outcome = run(line, {.environment = concat("QKV_ISA=", kernels::name_of(set))});
      EXPECT_EQ(outcome.status, 0) << kernels::name_of(set) << ": " << outcome.err;
      others += outcome.out.find("of the rounding bound") != std::string::npos;
    }
  }
  EXPECT_EQ(others, 2 * (std::ssize(kernels::instruction_sets()) - 1))
      << "all but the one that wrote the proofs";
}

}  // namespace
}  // namespace qkv::testing
