// Copies of hub folders (tests/golden/hub_folders.py): the commands give transformers' results, and all files
// are accepted.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/json_results.h"
#include "tests/apps/run.h"
#include "tests/support/pytorch_files.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

namespace fs = std::filesystem;

const fs::path kHubFolders = QKV_TEST_DATA "/apps/golden/hub";

std::vector<std::string> hub_folders() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kHubFolders))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class HubFolders : public CommandTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(HubFolders, ResultsAreThoseOfTransformers) {
  for (const json& recorded : json::parse(read_file(kHubFolders / GetParam() / "text_results.json"))) {
    std::vector<std::string> command = recorded["command"];
    command.insert(command.begin() + 1, (kHubFolders / GetParam()).string());
    const auto image = [](const std::string& name) {
      return concat(QKV_TEST_DATA "/data/golden/images/", name);
    };
    for (const std::string name : recorded.value("images", json::array())) {
      command.emplace_back("--image");
      command.push_back(image(name));
    }
    const std::string input = recorded.contains("image")   ? image(recorded["image"])
                              : recorded.contains("audio") ? concat(QKV_TEST_DATA "/apps/golden/audio/",
                                                                    recorded["audio"].get<std::string>())
                                                           : recorded["input"].get<std::string>();
    const Outcome outcome = run_qkv(plus(command, {"--json", "--threads", "1"}), {.input = input + "\n"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    for (const char* needless : {"warning", "position_ids", "attn.bias", "attn.masked_bias", "inv_freq"})
      EXPECT_EQ(outcome.err.find(needless), std::string::npos) << outcome.err;
    const std::vector<json> lines = json_lines(outcome.out);
    ASSERT_EQ(lines.size(), 1u);
    for (const auto& [key, value] : recorded.items()) {
      if (key == "command" || key == "input" || key == "audio" || key.starts_with("image")) continue;
      expect_same(lines.front()[key], value, concat(input, ": ", key));
    }
  }
}

std::string hub_test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

// Of a configuration, and of those within it.
void expect_kept(const json& before, const json& after) {
  for (const auto& [key, value] : before.items()) {
    // Fields that quantisation changes, end tokens, which generation_config.json may replace, and fields that
    // a family may spell otherwise: swish for silu, a default instead of null or -1, one configuration for
    // two.
    constexpr std::array kRewritten{"dtype",
                                    "torch_dtype",
                                    "model_type",
                                    "eos_token_id",
                                    "rope_scaling",
                                    "activation_function",
                                    "forced_eos_token_id",
                                    "n_inner",
                                    "head_dim",
                                    "max_relative_positions",
                                    "text_config_dict",
                                    "vision_config_dict"};
    if (std::ranges::find(kRewritten, key) != kRewritten.end() || value.is_null()) continue;
    ASSERT_TRUE(after.contains(key)) << key;
    if (key == "text_config" || key == "vision_config") {
      expect_kept(value, after[key]);
    } else {
      EXPECT_EQ(after[key], value) << key;
    }
  }
}

// A quantised copy keeps the fields that only other programs read (bos_token_id, label2id), and decoding
// options.
TEST_P(HubFolders, QuantizeKeepsTheirFields) {
  const fs::path folder = kHubFolders / GetParam();
  for (const std::string dtype : {"bf16", "int8"}) {
    output(concat("quantize %hub/", GetParam(), " --dtype ", dtype, " --out @/", dtype));
    const json before = json::parse(read_file(folder / "config.json")),
               after = json_file(dtype + "/config.json");
    expect_kept(before, after);
    EXPECT_FALSE(after.contains("torch_dtype")) << "it would contradict dtype";
    const fs::path copy = scratch_ / dtype / "generation_config.json";
    ASSERT_EQ(fs::exists(copy), fs::exists(folder / "generation_config.json"));
    if (fs::exists(copy)) {
      EXPECT_EQ(read_file(copy), read_file(folder / "generation_config.json"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HubFolders, ::testing::ValuesIn(hub_folders()), hub_test_name);

class HubFolder : public CommandTest {
 protected:
  // Copies a folder to @/model, with a modified config.json.
  void copy(const std::string& name, const json& change = json::object()) const {
    fs::remove_all(scratch_ / "model");
    fs::copy(kHubFolders / name, scratch_ / "model", fs::copy_options::recursive);
    json config = json_file("model/config.json");
    config.merge_patch(change);
    scratch_.write("model/config.json", config.dump());
  }
  void expect_model_refused(const std::vector<std::string>& parts) const {
    expect_refused("generate @/model --prompt a", 1, parts);
  }
};

TEST_F(HubFolder, UnknownFieldsThatMayChangeResultsAreRefused) {
  const json changes = json::array({{{"wings", 2}},
                                    {{"quantization_config", {{"load_in_4bit", true}}}},
                                    {{"pruned_heads", {{"0", {1}}}}},
                                    {{"is_decoder", true}},
                                    {{"position_embedding_type", "relative_key"}},
                                    {{"tie_encoder_decoder", true}}});
  for (const json& change : changes) {
    copy("bert-base-uncased", change);
    expect_refused("fill-mask @/model", 1, {"config.json", change.begin().key()}, "a [MASK]\n");
  }
  for (const char* other : {"mamba", "rwkv", "deberta-v2"}) {
    copy("SmolLM2-135M", {{"model_type", other}});
    expect_model_refused({"config.json", "model_type", "llama, mistral", other});
  }
}

TEST_F(HubFolder, CacheSnapshotsOfSymbolicLinksOpen) {
  const fs::path cache = scratch_ / "models--org--gpt2", snapshot = cache / "snapshots/607a";
  fs::create_directories(cache / "blobs");
  fs::create_directories(snapshot);
  int number = 0;
  for (const auto& entry : fs::directory_iterator(kHubFolders / "gpt2")) {
    if (!entry.is_regular_file()) continue;
    const std::string blob = concat("blob", number++);
    fs::copy(entry.path(), cache / "blobs" / blob);
    fs::create_symlink(fs::path("../../blobs") / blob, snapshot / entry.path().filename());
  }
  const std::string options = " --prompt Once --max-new-tokens 4";
  const std::string expected = output("generate %hub/gpt2" + options);
  EXPECT_EQ(output("generate @/models--org--gpt2/snapshots/607a" + options), expected);
  EXPECT_EQ(output("generate @/models--org--gpt2/snapshots/607a/" + options), expected);
  expect_refused("generate @/models--org--gpt2" + options, 1,
                 {"models--org--gpt2", "config.json", "snapshots"});
  expect_refused("generate @/models--org--gpt2/snapshots/607a/model.safetensors" + options, 1,
                 {"it is not a folder"});
}

TEST_F(HubFolder, FoldersOfOtherFormatsAreNamed) {
  scratch_.write("model/llama.Q4_1.gguf", "GGUF");
  for (const char* line : {"generate @/model --prompt a", "inspect @/model"})
    expect_refused(line, 1,
                   {"expected config.json, found llama.Q4_1.gguf", "opens by its own name",
                    path("model/llama.Q4_1.gguf")});
  scratch_.write("model/adapter_config.json", R"({"peft_type": "LORA"})");
  for (const char* line : {"generate @/model --prompt a", "inspect @/model"}) {
    expect_refused(line, 1,
                   {"expected config.json, found adapter_config.json", "an adapter",
                    "--adapter " + path("model"), "qkv merge"});
  }
  copy("SmolLM2-135M", {{"quantization_config", {{"quant_method", "awq"}, {"bits", 4}}}});
  expect_model_refused(
      {"config.json: quantization_config: expected none, as weights that another program quantized"});
}

TEST_F(HubFolder, WeightsOfOtherFormatsAreNamed) {
  copy("gpt2");
  scratch_.write(
      "model/model.safetensors",
      "version https://git-lfs.github.com/spec/v1\noid sha256:248dfc3911869ec493c76e65bf2fcf7f615\n");
  expect_model_refused({"model.safetensors", "Git LFS", "git lfs pull"});
  fs::remove(scratch_ / "model/model.safetensors");
  expect_model_refused({"pytorch_model.bin: expected a file of torch.save()"});
  fs::remove(scratch_ / "model/pytorch_model.bin");
  expect_model_refused({"model.safetensors", "tf_model.h5"});
}

TEST_F(HubFolder, WeightsOfTorchSaveGiveTheSameText) {
  copy("gpt2");
  const std::string line = "generate @/model --prompt Once --max-new-tokens 6";
  const std::string expected = output(line);
  output("quantize @/model --dtype bf16 --out @/expected");
  make_pytorch(scratch_ / "model/model.safetensors", scratch_ / "model/pytorch_model.bin");
  EXPECT_EQ(output(line), expected);
  output("quantize @/model --dtype bf16 --out @/found");
  EXPECT_FALSE(fs::exists(scratch_ / "found/pytorch_model.bin"));
  EXPECT_EQ(read_file(scratch_ / "found/model.safetensors"),
            read_file(scratch_ / "expected/model.safetensors"));
}

TEST_F(HubFolder, NoCodeOfAPickleIsRun) {
  copy("gpt2");
  fs::remove(scratch_ / "model/model.safetensors");
  const std::string command = "touch " + path("ran");
  std::string pickle("\x80\x02}X\x01\0\0\0wcos\nsystem\nX", 21);
  put_number(pickle, static_cast<uint32_t>(command.size()));
  pickle += command + "\x85Rs.";
  ZipBuilder zip;
  zip.add("model/data.pkl", pickle);
  scratch_.write("model/pytorch_model.bin", zip.build());
  expect_model_refused(
      {"pytorch_model.bin: expected a dictionary of tensors (a state_dict), found one without a tensor: w"});
  EXPECT_FALSE(fs::exists(scratch_ / "ran"));
}

TEST_F(HubFolder, ADamagedTensorOfTorchSaveIsNamed) {
  copy("deberta-v3-small");
  EXPECT_EQ(output("inspect @/model --verify"), "pytorch_model.bin: 40 tensors match their checksums\n");
  std::string content = read_file(scratch_ / "model/pytorch_model.bin");
  content[20'000] = static_cast<char>(content[20'000] ^ 1);
  scratch_.write("model/pytorch_model.bin", content);
  const Outcome outcome = run("inspect @/model --verify");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(
      outcome.out.starts_with("pytorch_model.bin: differs from its checksum: deberta.encoder.layer."));
}

TEST_F(HubFolder, ProblemTypeSelectsTheLabelProbability) {
  const auto classify = [&](const json& change) {
    copy("distilbert-base-uncased-finetuned-sst-2-english", change);
    std::map<std::string, double> of_label;
    const json found = line_results("classify @/model", "a red dog\n").front();
    for (const json& one : found["labels"]) of_label[one["label"]] = one["probability"];
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
}  // namespace qkv::testing
