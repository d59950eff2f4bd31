#include <nlohmann/json.hpp>

#include "qkv/io/safetensors.h"
#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

namespace fs = std::filesystem;

class QuantizeCommand : public CommandTest {
 protected:
  QuantizeCommand() { write_random_model(scratch_ / "model", scratch_.path()); }

  std::string quantize(const std::string& dtype) const {
    const Outcome outcome = run(concat("quantize @/model --dtype ", dtype, " --out @/", dtype));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.err;
  }
  std::string translate(const std::string& options) const {
    return output("translate --scores " + options, "forty-two\nseven hundred one\n");
  }
};

TEST_F(QuantizeCommand, WritesTheWeightsThatDtypeRoundsTo) {
  const auto size = [&](const std::string& name) {
    const io::SafetensorsFile file(scratch_ / name / "model.safetensors");
    return static_cast<double>(fs::file_size(file.path()) - file.header().size());
  };
  for (const auto& [dtype, share] : {std::pair{"bf16", 0.6}, std::pair{"int8", 0.4}, std::pair{"q8_0", 0.45},
                                     std::pair{"q4_0", 0.35}, std::pair{"q5_k", 0.6}}) {
    expect_parts(quantize(dtype), {dtype});
    EXPECT_LT(size(dtype), share * size("model"));
    const std::string stored = translate(concat("@/", dtype));
    EXPECT_EQ(stored, translate(concat("@/model --dtype ", dtype)));
    EXPECT_NE(stored, translate("@/model")) << "scores of f32 to the last digit";
    translate(concat("@/", dtype, " --dtype f32"));  // the rounded values, widened again
  }
}

TEST_F(QuantizeCommand, ReplacesTheRestOfAKilledCopy) {
  quantize("int8");
  scratch_.write("killed/copy.partial-17/model.safetensors", "half");
  scratch_.write("killed/config.json", "{}");
  output("quantize @/model --dtype int8 --out @/killed");
  for (const fs::path& file : files_in(scratch_ / "int8"))
    EXPECT_EQ(read_file(scratch_ / "killed" / file.filename()), read_file(file)) << file;
  EXPECT_EQ(files_in(scratch_ / "killed").size(), files_in(scratch_ / "int8").size());
}

TEST_F(QuantizeCommand, WarnsOfWeightsThatGrow) {
  EXPECT_EQ(quantize("int8").find("larger"), std::string::npos);
  const Outcome outcome = run("quantize @/int8 --dtype bf16 --out @/bf16");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  expect_parts(outcome.err, {"larger than the original, but no more precise"});
}

TEST_F(QuantizeCommand, OtherCommandsTakeTheDType) {
  quantize("int8");
  scratch_.write("text", "forty-two\nseven hundred one\n");
  EXPECT_EQ(output("evaluate translation @/int8 --src @/text --ref @/text"),
            output("evaluate translation @/model --dtype int8 --src @/text --ref @/text"));
  const auto f32 = result("inspect @/model"), int8 = result("inspect @/int8");
  EXPECT_EQ(f32["dtype"], "f32");
  EXPECT_EQ(int8["dtype"], "int8");
  EXPECT_EQ(f32["parameters"], int8["parameters"]);
  EXPECT_EQ(f32["weight_bytes"], 4 * f32["parameters"].get<int64_t>());
  EXPECT_LT(int8["weight_bytes"], f32["weight_bytes"].get<int64_t>() * 2 / 5);
  EXPECT_EQ(result("inspect @/model --dtype int8")["weight_bytes"], int8["weight_bytes"]);
}

TEST_F(QuantizeCommand, BlocksGiveTheSameScoresInAnyBatchAndWithAnyThreads) {
  for (const char* dtype : {"q8_0", "q4_0"}) {
    quantize(dtype);
    const std::string model = concat("translate --scores @/", dtype);
    const std::string both = output(model + " --threads 1", "forty-two\nseven hundred one\n");
    EXPECT_EQ(both, output(model + " --threads 3", "forty-two\nseven hundred one\n"));
    EXPECT_EQ(both, output(model, "forty-two\n") + output(model, "seven hundred one\n"));
  }
}

TEST_F(QuantizeCommand, Int4IsQ4_0) {
  quantize("q4_0");
  quantize("int4");
  EXPECT_EQ(content("int4/model.safetensors"), content("q4_0/model.safetensors"));
  EXPECT_EQ(result("inspect @/int4")["dtype"], "q4_0");
  output("self-test @/int4");
}

TEST_F(QuantizeCommand, CalibratesALanguageModelAndPrintsItsPerplexities) {
  const std::string text =
      "The captain said that he would not sail. The ship was old, and the sea was high.\n";
  scratch_.write("text", text + "\n" + text + "\n" + text);
  const Outcome outcome =
      run("quantize %hub/SmolLM2-135M --dtype q4_0 --calibrate @/text --out @/calibrated");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  expect_parts(outcome.err, {"perplexity of the last tenth of ", " in f32, ", " rounded, ", " calibrated"});
  output("generate @/calibrated --prompt Once --max-new-tokens 4");
  expect_refused("quantize %hub/SmolLM2-135M --dtype int8 --calibrate @/text --out @/new", 2,
                 {"--calibrate: expected --dtype of blocks", "int8"});
  expect_refused("quantize @/model --dtype q4_0 --calibrate @/text --out @/new", 1, {"language model"});
  for (const char* few : {"a", "a b c d"}) {
    scratch_.write("short", few);
    expect_refused("quantize %hub/SmolLM2-135M --dtype q4_0 --calibrate @/short --out @/new", 1,
                   {path("short"), "expected text of 20 tokens or more, found "});
  }
  EXPECT_FALSE(fs::exists(scratch_ / "new"));
}

TEST_F(QuantizeCommand, RefusesBadArguments) {
  scratch_.write("file", "x");
  expect_refused("quantize @/model --dtype int3 --out @/out", 2, {"--dtype", "int3"});
  expect_refused("quantize @/model --dtype int8 --out @/model", 2,
                 {path("model"), "expected an empty folder"});
  translate("@/model");  // still there
  expect_refused("quantize @/model --dtype int8 --out @/file", 2, {path("file"), "found a file"});
  expect_refused("quantize @/missing --dtype int8 --out @/new", 1, {path("missing")});
  EXPECT_FALSE(fs::exists(scratch_ / "new"));
  expect_refused("translate @/model --dtype fp8", 2, {"--dtype", "fp8"});
}

}  // namespace
}  // namespace qkv::testing
