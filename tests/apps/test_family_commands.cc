// What the commands for texts share: dtypes of weights, lines with errors, texts as arguments, refused
// models.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/apps/family_commands.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

TEST_F(FamilyCommands, OpenWeightsOfEachDtype) {
  for (const auto& [command, model, options] :
       {std::tuple{"generate", "llama", " --max-new-tokens 4"},
        {"score", "gpt2_untied_relu", ""},
        {"fill-mask", "bert_masked", ""},
        {"classify", "bert_texts", ""},
        {"tag", "bert_tokens", ""},
        {"answer", "bert_spans", " --question 'the dog sleeps?' --top 3"},
        {"embed", "bert_base", " --pool pooler"}}) {
    const json expected = recorded(model);
    const std::string original = concat(command, " %", model, options);
    const auto exact = results(original, expected);
    for (const std::string form : {"bf16", "int8"}) {
      const std::string rounded = concat(command, form);
      const Outcome quantized = run(concat("quantize %", model, " --dtype ", form, " --out @/", rounded));
      ASSERT_EQ(quantized.status, 0) << quantized.err;
      expect_parts(quantized.err, {form});
      const auto stored = results(concat(command, " @/", rounded, options), expected);
      EXPECT_EQ(stored, results(concat(original, " --dtype ", form), expected)) << rounded;
      EXPECT_NE(stored, exact) << rounded;
    }
  }
}

TEST_F(FamilyCommands, QuantizeReadsShards) {
  const Outcome outcome = run("quantize %llama_grouped+shards --dtype bf16 --out @/out");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  expect_parts(outcome.err, {"no qkv_proof.json: the folder has no tokenizer"});
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "out/qkv_proof.json"));
  EXPECT_EQ(result("inspect @/out")["weight_bytes"],
            result("inspect %llama_grouped+shards --dtype bf16")["weight_bytes"]);
}

// Layers without a window keep every position, the others what their window needs while chunks are read.
TEST_F(FamilyCommands, InspectShowsTheCacheThatWindowsLeave) {
  std::filesystem::copy(recorded_model("qwen2_windows"), scratch_ / "model");
  json config = json_file("model/config.json");
  config["max_position_embeddings"] = 65536;
  scratch_.write("model/config.json", config.dump());
  const auto bytes = [&] {
    const json cache = result("inspect @/model")["cache"];
    EXPECT_EQ(cache["positions"], 65536);
    return cache["bytes"].get<int64_t>();
  };
  const int64_t windowed = bytes();
  config["use_sliding_window"] = false;
  config.erase("layer_types");
  scratch_.write("model/config.json", config.dump());
  const int64_t whole = bytes(), layers = config["num_hidden_layers"];
  EXPECT_EQ(whole % (65536 * layers), 0);
  EXPECT_LT(windowed, whole);
  EXPECT_GE(windowed, whole / layers) << "one layer has no window";
}

TEST_F(FamilyCommands, InspectCountsBytesOfEachDtype) {
  const json f32 = result("inspect %vit_images --dtype f32"),
             int8 = result("inspect %vit_images --dtype int8");
  EXPECT_EQ(int8["dtype"], "int8");
  EXPECT_EQ(int8["parameters"], f32["parameters"]);
  EXPECT_EQ(f32["weight_bytes"], 4 * f32["parameters"].get<int64_t>());
  int64_t sum = 0;
  for (const json& part : int8["parts"]) sum += part["weight_bytes"].get<int64_t>();
  EXPECT_EQ(int8["weight_bytes"], sum);
  EXPECT_LT(sum, f32["weight_bytes"].get<int64_t>());
}

TEST_F(FamilyCommands, BadLinesDoNotAffectOthers) {
  std::string long_line = "the";
  for (int i = 0; i < 30; ++i) long_line += " dog";
  const std::string lines = "the man\n" + long_line + "\nbad \xff bytes\na red dog\n";
  for (const char* line : {"generate %gpt2_untied_relu --max-new-tokens 3", "score %gpt2_untied_relu",
                           "classify %bert_texts", "tag %bert_tokens", "embed %bert_base"}) {
    const Outcome outcome = run(line, {.input = lines});
    EXPECT_EQ(outcome.status, 1);
    expect_parts(outcome.err, {"line 2: ", "at most 20 tokens", "line 3: expected UTF-8", "2 of 4 lines"});
    const std::string good = output(line, "the man\na red dog\n");
    const size_t first = good.find('\n') + 1;
    EXPECT_TRUE(outcome.out.starts_with(good.substr(0, first) + "error: line 2: ")) << outcome.out;
    EXPECT_TRUE(outcome.out.ends_with(good.substr(first))) << outcome.out;
    expect_parts(outcome.out, {"\nerror: line 3: expected UTF-8"});
    EXPECT_EQ(count_lines_of(outcome.out), 4u);
  }
}

TEST_F(FamilyCommands, TakeTextsAsArguments) {
  for (const char* line :
       {"generate %gpt2_untied_relu --max-new-tokens 3", "score %gpt2_untied_relu", "classify %bert_texts",
        "tag %bert_tokens", "answer %bert_spans --question 'the dog?'", "embed %bert_base"}) {
    EXPECT_EQ(output(concat(line, " 'the man' 'a red dog'")), output(line, "the man\na red dog\n"));
    EXPECT_EQ(output(concat(line, " --json -- 'a red dog'")), output(concat(line, " --json"), "a red dog\n"));
  }
  EXPECT_EQ(output("fill-mask %bert_masked 'a red [MASK]'"),
            output("fill-mask %bert_masked", "a red [MASK]\n"));
  expect_refused("generate %gpt2_untied_relu 'a red' --prompt 'the man'", 2,
                 {"expected no --prompt beside it"});
}

TEST_F(FamilyCommands, RefuseModelsWithoutTheHead) {
  const std::string input = "the man\n";
  expect_refused("fill-mask %bert_texts", 1, {"masked-language head"}, input);
  expect_refused("classify %bert_masked", 1, {"a text classification head"}, input);
  expect_refused("tag %bert_texts", 1, {"a token classification head"}, input);
  expect_refused("embed %bert_masked --pool pooler", 2, {"a pooler"}, input);
  expect_refused("generate %bert_base a", 1,
                 {"model_type", "llama, mistral",
                  "a text encoder; open it with qkv fill-mask, classify, tag or embed\n"});
  expect_refused("fill-mask %gpt2_untied_relu", 1, {"masked-language head"}, input);
  expect_refused("rerank %bert_texts --query a", 1, {"a reranking (of one label) head"}, input);
  expect_refused("generate %nowhere --prompt a", 1, {"there is no such folder"});
}

TEST_F(FamilyCommands, NameTheOptionWhoseTextIsBad) {
  expect_refused("rerank %bert_texts --query b\xff", 2, {"--query: expected UTF-8"}, "a\na\n");
  expect_refused("embed %bert_base --prompt b\xff", 2, {"--prompt: expected UTF-8"}, "a\na\n");
}

}  // namespace
}  // namespace qkv::testing
