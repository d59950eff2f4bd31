// Copies of hub folders (tests/golden/hub_folders.py): the commands give transformers' results, and all files
// are accepted.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/json_results.h"
#include "tests/apps/run.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;

namespace fs = std::filesystem;

const fs::path kData = QKV_TEST_DATA;
const fs::path kHub = kData / "apps" / "golden" / "hub";

std::vector<std::string> folders() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kHub)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class HubFolders : public ::testing::TestWithParam<std::string> {};

TEST_P(HubFolders, SayWhatTransformersSays) {
  const fs::path folder = kHub / GetParam();
  for (const json& said : json::parse(read_file(folder / "said.json"))) {
    std::vector<std::string> command = said["command"];
    command.insert(command.begin() + 1, folder.string());
    command.insert(command.end(), {"--json", "--threads", "1"});
    const std::string input = said.contains("image")
                                  ? (kData / "data" / "golden" / "images" / said["image"]).string()
                                  : said["input"].get<std::string>();
    const Outcome outcome = run_qkv(command, {.input = input + "\n"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    for (const char* needless : {"warning", "position_ids", "attn.bias", "attn.masked_bias", "inv_freq"})
      EXPECT_EQ(outcome.err.find(needless), std::string::npos) << outcome.err;
    const std::vector<json> lines = json_lines(outcome.out);
    ASSERT_EQ(lines.size(), 1u);
    for (const auto& [key, value] : said.items()) {
      if (key == "command" || key == "input" || key == "image") continue;
      expect_same(lines.front()[key], value, concat(input, ": ", key));
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

// A quantised copy keeps the fields that only other programs read (bos_token_id, label2id), and decoding
// options.
TEST_P(HubFolders, KeepTheirFieldsWhenQuantized) {
  const Scratch scratch;
  for (const std::string dtype : {"bf16", "int8"}) {
    const fs::path folder = kHub / GetParam(), out = scratch / dtype;
    const Outcome outcome = run_qkv({"quantize", folder.string(), "--dtype", dtype, "--out", out.string()});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const json before = json::parse(read_file(folder / "config.json")),
               after = json::parse(read_file(out / "config.json"));
    for (const auto& [key, value] : before.items()) {
      // What quantisation changes, end tokens, which generation_config.json may replace, and what a family
      // may spell otherwise: swish for silu, a default instead of null.
      constexpr std::array kRewritten{
          "dtype",        "torch_dtype",         "model_type",          "eos_token_id",
          "rope_scaling", "activation_function", "forced_eos_token_id", "n_inner",
          "head_dim"};
      if (std::ranges::find(kRewritten, key) != kRewritten.end()) continue;
      ASSERT_TRUE(after.contains(key)) << key;
      EXPECT_EQ(after[key], value) << key;
    }
    EXPECT_FALSE(after.contains("torch_dtype")) << "it would contradict dtype";
    ASSERT_EQ(fs::exists(out / "generation_config.json"), fs::exists(folder / "generation_config.json"));
    if (fs::exists(folder / "generation_config.json")) {
      EXPECT_EQ(read_file(out / "generation_config.json"), read_file(folder / "generation_config.json"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HubFolders, ::testing::ValuesIn(folders()), test_name);

// A folder with a modified config.json.
fs::path changed(const Scratch& scratch, const std::string& name, const json& change) {
  const fs::path folder = scratch / "changed";
  fs::remove_all(folder);
  fs::copy(kHub / name, folder, fs::copy_options::recursive);
  json config = json::parse(read_file(folder / "config.json"));
  config.merge_patch(change);
  write_file_atomically(folder / "config.json", config.dump());
  return folder;
}

TEST(HubFolder, FieldsThatMayChangeWhatIsComputedAreRefused) {
  const Scratch scratch;
  const json changes = json::array({{{"wings", 2}},
                                    {{"quantization_config", {{"load_in_4bit", true}}}},
                                    {{"pruned_heads", {{"0", {1}}}}},
                                    {{"is_decoder", true}},
                                    {{"position_embedding_type", "relative_key"}},
                                    {{"tie_encoder_decoder", true}}});
  for (const json& change : changes) {
    const fs::path folder = changed(scratch, "bert-base-uncased", change);
    expect_failure(run_qkv({"fill-mask", folder.string()}, {.input = "a [MASK]\n"}), 1,
                   {"config.json", change.begin().key()});
  }
  for (const char* other : {"mamba", "qwen2", "deberta-v2"}) {
    const fs::path folder = changed(scratch, "SmolLM2-135M", {{"model_type", other}});
    expect_failure(run_qkv({"generate", folder.string(), "--prompt", "a"}), 1,
                   {"config.json", "model_type", "gpt2, llama", other});
  }
}

TEST(HubFolder, MayBeGivenAsTheCacheHasIt) {
  const Scratch scratch;
  const fs::path cache = scratch / "models--org--gpt2", snapshot = cache / "snapshots" / "607a30d783dfa663";
  fs::create_directories(cache / "blobs");
  fs::create_directories(snapshot);
  int number = 0;
  for (const auto& entry : fs::directory_iterator(kHub / "gpt2")) {
    if (!entry.is_regular_file()) continue;
    const std::string blob = concat("blob", number++);
    fs::copy(entry.path(), cache / "blobs" / blob);
    fs::create_symlink(fs::path("../../blobs") / blob, snapshot / entry.path().filename());
  }
  const auto generate = [](const std::string& folder) {
    return run_qkv({"generate", folder, "--prompt", "Once", "--max-new-tokens", "4"});
  };
  const Outcome plain = generate((kHub / "gpt2").string());
  ASSERT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(generate(snapshot.string()).out, plain.out);
  EXPECT_EQ(generate(snapshot.string() + "/").out, plain.out);
  expect_failure(generate(cache.string()), 1, {"models--org--gpt2", "config.json", "snapshots"});
  expect_failure(generate((snapshot / "model.safetensors").string()), 1, {"it is not a folder"});
}

TEST(HubFolder, FoldersOfOtherKindsAreNamed) {
  const Scratch scratch;
  const auto refused = [&](const std::vector<std::string>& parts) {
    expect_failure(run_qkv({"generate", (scratch / "model").string(), "--prompt", "a"}), 1, parts);
    expect_failure(run_qkv({"inspect", (scratch / "model").string()}), 1, parts);
  };
  scratch.write("model/llama.Q4_1.gguf", "GGUF");
  refused({"expected config.json, found llama.Q4_1.gguf", "GGUF files are not read"});
  scratch.write("model/adapter_config.json", R"({"peft_type": "LORA"})");
  refused({"expected config.json, found adapter_config.json", "an adapter",
           "--adapter " + (scratch / "model").string(), "qkv merge"});
  const fs::path quantized =
      changed(scratch, "SmolLM2-135M", {{"quantization_config", {{"quant_method", "awq"}, {"bits", 4}}}});
  expect_failure(
      run_qkv({"generate", quantized.string(), "--prompt", "a"}), 1,
      {"config.json: quantization_config: expected none, as weights that another program quantized"});
}

TEST(HubFolder, WeightsForOtherProgramsAloneAreNamed) {
  const Scratch scratch;
  const fs::path folder = changed(scratch, "gpt2", json::object());
  const auto refused = [&](const std::vector<std::string>& parts) {
    expect_failure(run_qkv({"generate", folder.string(), "--prompt", "a"}), 1, parts);
  };
  write_file_atomically(
      folder / "model.safetensors",
      "version https://git-lfs.github.com/spec/v1\noid sha256:248dfc3911869ec493c76e65bf2fcf7f615\n");
  refused({"model.safetensors", "Git LFS", "git lfs pull"});
  fs::remove(folder / "model.safetensors");
  refused({"model.safetensors", "pytorch_model.bin", "python3 -c", "save_file"});
  fs::remove(folder / "pytorch_model.bin");
  refused({"model.safetensors", "tf_model.h5"});
}

TEST(HubFolder, LabelsAreJudgedAsTheirProblemIs) {
  const Scratch scratch;
  const auto classify = [&](const json& change) {
    const fs::path folder = changed(scratch, "distilbert-base-uncased-finetuned-sst-2-english", change);
    const Outcome outcome = run_qkv({"classify", folder.string(), "--json"}, {.input = "a red dog\n"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::map<std::string, double> of_label;
    const std::vector<json> lines = json_lines(outcome.out);
    for (const json& one : lines.front()["labels"]) of_label[one["label"]] = one["probability"];
    return of_label;
  };
  auto logits = classify({{"problem_type", "regression"}});
  const auto single = classify({{"problem_type", "single_label_classification"}}),
             many = classify({{"problem_type", "multi_label_classification"}});
  EXPECT_EQ(classify(json::object()), single);
  const double sum = std::exp(logits["NEGATIVE"]) + std::exp(logits["POSITIVE"]);
  for (const auto& [label, logit] : logits) {
    EXPECT_NEAR(single.at(label), std::exp(logit) / sum, 1e-5) << label;
    EXPECT_NEAR(many.at(label), 1 / (1 + std::exp(-logit)), 1e-5) << label;
  }
}

}  // namespace
