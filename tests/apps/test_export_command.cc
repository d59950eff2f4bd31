#include "qkv/io/gguf.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

class ExportCommand : public CommandTest {};

TEST_F(ExportCommand, WritesAFileThatGivesTheTextOfItsFolder) {
  const std::string model = recorded_model("hub/TinyLlama-1.1B-Chat-v1.0");
  const Outcome outcome = run(concat("export ", model, " --to @/m.gguf --encoding f32"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  expect_parts(outcome.err, {"m.gguf: weights in f32, ", " bits a number"});
  const std::string options = " 'the other' --max-new-tokens 8 --json";
  EXPECT_EQ(output(concat("generate @/m.gguf", options)), output(concat("generate ", model, options)));
}

TEST_F(ExportCommand, ReportsEncodingsAndFallbacks) {
  const std::string model = recorded_model("hub/SmolLM2-135M");  // rows of 16 and 24 numbers
  const auto report = result(concat("export ", model, " --to @/m.gguf --encoding q4_k"));
  EXPECT_EQ(report["encoding"], "q4_k");
  EXPECT_EQ(report["bytes"], std::filesystem::file_size(path("m.gguf")));
  EXPECT_EQ(report["fallbacks"], nlohmann::json({{"16", "f16"}, {"24", "f16"}}));
  EXPECT_EQ(report["tensors"], nlohmann::json({{"f16", 15}, {"f32", 5}}));
  const Outcome again = run("export @/m.gguf --to @/n.gguf --encoding q8_0");
  EXPECT_EQ(again.status, 0) << again.err;
  expect_parts(again.err, {"f16 for rows of 16, f16 for rows of 24"});
  EXPECT_EQ(io::GgufFile(path("n.gguf")).names(), io::GgufFile(path("m.gguf")).names());
}

TEST_F(ExportCommand, RefusesBadArguments) {
  const std::string model = recorded_model("hub/SmolLM2-135M");
  expect_refused(concat("export ", model, " --to @/m.bin"), 2, {"--to", "ends in .gguf", "m.bin"});
  expect_refused(concat("export ", model, " --to @/m.gguf --encoding q3_k"), 2, {"--encoding", "q3_k"});
  expect_refused("export @/missing --to @/m.gguf", 1, {path("missing")});
  expect_refused(concat("export ", model, " --to @/no/such/m.gguf"), 1, {path("no/such")});
  expect_refused(concat("export ", recorded_model("hub/t5-small"), " --to @/m.gguf"), 2,
                 {"model_type", "t5"});
  EXPECT_TRUE(files_in(scratch_.path()).empty());
  std::filesystem::create_directory(scratch_ / "d.gguf");
  expect_refused(concat("export ", model, " --to @/d.gguf"), 2, {"found the folder " + path("d.gguf")});
}

}  // namespace
}  // namespace qkv::testing
