#include <nlohmann/json.hpp>

#include "qkv/io/safetensors.h"
#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

namespace fs = std::filesystem;

class QuantizeCommand : public ::testing::Test {
 protected:
  QuantizeCommand() { write_random_model(model_, scratch_.path()); }

  Outcome quantize(const std::string& dtype, const std::string& out) const {
    return run_qkv({"quantize", model_, "--dtype", dtype, "--out", out});
  }
  static Outcome translate(const std::string& folder, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"translate", folder, "--scores"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_qkv(arguments, {.input = "forty-two\nseven hundred one\n"});
  }

  Scratch scratch_;
  std::string model_ = (scratch_ / "model").string();
};

TEST_F(QuantizeCommand, WhatItWritesTranslatesAsRoundingOnTheFly) {
  const auto size = [](const std::string& folder) {
    const io::SafetensorsFile file(fs::path(folder) / "model.safetensors");
    return static_cast<double>(fs::file_size(file.path()) - file.header().size());
  };
  for (const auto& [dtype, share] : {std::pair{"bf16", 0.6}, std::pair{"int8", 0.4}}) {
    const std::string out = (scratch_ / dtype).string();
    const Outcome outcome = quantize(dtype, out);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find(dtype), std::string::npos) << outcome.err;
    EXPECT_LT(size(out), share * size(model_));
    const Outcome stored = translate(out), rounded = translate(model_, {"--dtype", dtype});
    EXPECT_EQ(stored.status, 0) << stored.err;
    EXPECT_EQ(stored.out, rounded.out);
    EXPECT_NE(stored.out, translate(model_).out) << "scores of f32 to the last digit";
    // Widened again, the values are the rounded ones.
    EXPECT_EQ(translate(out, {"--dtype", "f32"}).status, 0);
  }
}

TEST_F(QuantizeCommand, WarnsOfWeightsThatGrow) {
  const std::string int8 = (scratch_ / "int8").string(), bf16 = (scratch_ / "bf16").string();
  EXPECT_EQ(quantize("int8", int8).err.find("larger"), std::string::npos);
  const Outcome outcome = run_qkv({"quantize", int8, "--dtype", "bf16", "--out", bf16});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("larger than the original, but no more precise"), std::string::npos)
      << outcome.err;
}

TEST_F(QuantizeCommand, OtherCommandsTakeTheDType) {
  const std::string out = (scratch_ / "int8").string();
  ASSERT_EQ(quantize("int8", out).status, 0);
  const std::string text = scratch_.write("text", "forty-two\nseven hundred one\n").string();
  const auto evaluate = [&](const std::string& folder, std::vector<std::string> more) {
    std::vector<std::string> arguments{"evaluate", "translation", folder, "--src", text, "--ref", text};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_qkv(arguments);
  };
  const Outcome outcome = evaluate(out, {});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, evaluate(model_, {"--dtype", "int8"}).out);
  const auto bytes = [&](const std::string& folder, std::vector<std::string> more) {
    std::vector<std::string> arguments{"inspect", folder, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome inspected = run_qkv(arguments);
    EXPECT_EQ(inspected.status, 0) << inspected.err;
    return nlohmann::json::parse(inspected.out);
  };
  const auto f32 = bytes(model_, {}), int8 = bytes(out, {});
  EXPECT_EQ(f32["dtype"], "f32");
  EXPECT_EQ(int8["dtype"], "int8");
  EXPECT_EQ(f32["parameters"], int8["parameters"]);
  EXPECT_EQ(f32["weight_bytes"], 4 * f32["parameters"].get<int64_t>());
  EXPECT_LT(int8["weight_bytes"], f32["weight_bytes"].get<int64_t>() * 2 / 5);
  EXPECT_EQ(bytes(model_, {"--dtype", "int8"})["weight_bytes"], int8["weight_bytes"]);
}

TEST_F(QuantizeCommand, RefusesWhatItCannotDo) {
  expect_failure(quantize("int4", (scratch_ / "out").string()), 2, {"--dtype", "int4"});
  expect_failure(quantize("int8", model_), 2, {model_, "expected an empty folder"});
  EXPECT_EQ(translate(model_).status, 0);
  const std::string file = scratch_.write("file", "x").string();
  expect_failure(quantize("int8", file), 2, {file, "found a file"});
  expect_failure(run_qkv({"quantize", model_ + "-not", "--dtype", "int8", "--out", file + "-new"}), 1,
                 {model_ + "-not"});
  EXPECT_FALSE(fs::exists(file + "-new"));
  expect_failure(translate(model_, {"--dtype", "fp8"}), 2, {"--dtype", "fp8"});
}

}  // namespace
}  // namespace qkv::testing
