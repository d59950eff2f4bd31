#include "qkv/kernels/instruction_set.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

const std::vector<std::vector<std::string>> kCommands = {{},
                                                         {"train"},
                                                         {"train", "translation"},
                                                         {"translate"},
                                                         {"evaluate"},
                                                         {"evaluate", "translation"},
                                                         {"inspect"},
                                                         {"bleu"},
                                                         {"attention"},
                                                         {"bench"},
                                                         {"self-test"},
                                                         {"demo"}};

std::vector<std::string> with(std::vector<std::string> arguments, const std::string& last) {
  arguments.push_back(last);
  return arguments;
}

TEST(CommandLine, EveryCommandExplainsItselfWithAnExample) {
  for (const auto& command : kCommands) {
    const Outcome help = run_qkv(with(command, "--help"));
    const std::string name = command.empty() ? "qkv" : command.back();
    EXPECT_EQ(help.status, 0) << name;
    EXPECT_EQ(help.err, "") << name;
    EXPECT_NE(help.out.find("Usage: qkv"), std::string::npos) << name << help.out;
    if (command == std::vector<std::string>{"train"}) continue;  // a group with one subcommand
    EXPECT_NE(help.out.find("Example:\n  qkv "), std::string::npos) << name << help.out;
  }
}

TEST(CommandLine, SaysItsVersion) {
  const Outcome version = run_qkv({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.out.starts_with("qkv 0.")) << version.out;
}

TEST(CommandLine, RefusesWhatItDoesNotKnow) {
  for (const auto& command : kCommands) expect_failure(run_qkv(with(command, "--no-such-option")), 2, {});
  expect_failure(run_qkv({}), 2, {"Usage: qkv", "translate"});
  expect_failure(run_qkv({"predict"}), 2, {"expected a command, found 'predict'; 'qkv --help' lists them"});
  expect_failure(run_qkv({"tranlate", "model"}), 2, {"found 'tranlate'; did you mean 'translate'?"});
  expect_failure(run_qkv({"inspect", "--preset", "tiny", "--no-such-option"}), 2, {"--no-such-option"});
  expect_failure(run_qkv({"train", "translation", "--srcs", "a", "--tgt", "b"}), 2, {"--srcs"});
  expect_failure(run_qkv({"inspect", "--preset", "huge"}), 2, {"tiny, small, base, big", "huge"});
  expect_failure(run_qkv({"inspect", "--preset", "tiny", "--set", "d_modell=3"}), 2,
                 {"d_model,", "d_modell"});
  expect_failure(run_qkv({"inspect", "--preset", "tiny", "--set", "d_model=x"}), 2, {"d_model", "'x'"});
  expect_failure(run_qkv({"inspect"}), 2, {"--preset", "--layer"});
  expect_failure(run_qkv({"inspect", "--layer", "attention", "--heads", "7"}), 2, {"7 heads"});
  expect_failure(run_qkv({"inspect", "--layer", "attention", "--d-model", "0"}), 2,
                 {"qkv: --d-model: expected", "0"});
  expect_failure(run_qkv({"demo", "--steps", "0"}), 2, {"max_steps"});
}

TEST(CommandLine, UsesTheInstructionSetAskedForOrFails) {
  const std::vector<std::string> command{"inspect", "--preset", "tiny"};
  expect_failure(run_qkv(command, {.environment = "QKV_ISA=avx3"}), 2,
                 {"qkv: QKV_ISA: expected an instruction set that this build and machine have (", "'avx3'"});
  const bool arm = kernels::instruction_sets().back() == kernels::InstructionSet::neon;
  expect_failure(run_qkv(command, {.environment = arm ? "QKV_ISA=avx2" : "QKV_ISA=neon"}), 2,
                 {"QKV_ISA: ", kernels::name_of(kernels::instruction_sets().front())});
  for (const kernels::InstructionSet set : kernels::instruction_sets()) {
    const std::string environment = concat("QKV_ISA=", kernels::name_of(set));
    EXPECT_EQ(run_qkv(command, {.environment = environment}).status, 0) << environment;
  }
}

TEST(CommandLine, ChecksTheNumberOfThreads) {
  expect_failure(run_qkv({"demo", "--threads", "0"}), 2, {"threads", "found 0"});
  expect_failure(run_qkv({"translate", "model", "--threads", "-3"}), 2, {"threads", "found -3"});
  expect_failure(run_qkv({"translate", "model", "--threads", "two"}), 2, {"--threads", "two"});
}

TEST(CommandLine, NoticesWhenStdoutIsFull) {
  const Outcome outcome = run_qkv({"inspect", "--preset", "tiny"}, {.stdout_to = "/dev/full"});
  expect_failure(outcome, 1, {"stdout"});
}

TEST(Inspect, CountsAnAttentionLayer) {
  const std::vector<std::string> layer = {"inspect", "--layer", "attention", "--d-model", "512",  "--heads",
                                          "8",       "--batch", "32",        "--length",  "1024", "--json"};
  const Outcome whole = run_qkv(layer), without = run_qkv(with(layer, "--no-output-projection"));
  EXPECT_EQ(whole.status, 0) << whole.err;
  // 4 or 3 projections of 32 x 1024 x 512 x 512, and 2 products of 32 x 1024 x 1024 x 512.
  EXPECT_NE(whole.out.find("\"macs\": 68719476736,"), std::string::npos) << whole.out;
  EXPECT_NE(without.out.find("\"macs\": 60129542144,"), std::string::npos) << without.out;
}

TEST(Inspect, ListsAPreset) {
  const Outcome outcome =
      run_qkv({"inspect", "--preset", "base", "--vocab", "37000", "--set", "decoder_layers=2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* part : {"decoder_layers", "encoder.self_attention", "decoder.cross_attention", "total"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
  EXPECT_EQ(outcome.out.find('\033'), std::string::npos) << "colour in a file";
}

}  // namespace
}  // namespace qkv::testing
