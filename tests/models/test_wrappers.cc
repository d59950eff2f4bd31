// Language models within models of images (qkv/models/hub/wrappers.h).

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/models/hub/adapter.h"
#include "qkv/models/hub/copies.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/hub/read_config.h"
#include "qkv/nn/low_rank.h"
#include "tests/models/family_case.h"
#include "tests/models/folder_copy.h"
#include "tests/models/weight_files.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;
using nlohmann::json;

LanguageModelConfig config_of(const json& config) {
  const Scratch folder;
  folder.write("config.json", config.dump());
  return read_language_model_config(folder.path());
}

std::string refusal(const json& config) {
  return message_of<DataError>([&] { config_of(config); });
}

// As the first folders of the hub have it: fields with transformers' defaults are missing.
json gemma3_4b() {
  return json::parse(R"({
    "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999, "eoi_token_index": 256000,
    "eos_token_id": [1, 106], "image_token_index": 262144, "initializer_range": 0.02, "mm_tokens_per_image": 256,
    "model_type": "gemma3", "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
    "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                    "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                    "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}})");
}

TEST(Wrappers, HaveTheDefaultsOfTransformers) {
  const LanguageModelConfig config = config_of(gemma3_4b());
  EXPECT_EQ(config.vocabulary, 262208);
  EXPECT_EQ(config.decoder.size(), 34);
  EXPECT_TRUE(config.tied);
  EXPECT_EQ(config.eos_ids, (std::vector<int32_t>{1, 106}));
  const nn::LayerOptions& first = config.decoder.first();
  EXPECT_EQ(first.heads, 8);
  EXPECT_EQ(first.key_heads, 4);
  EXPECT_EQ(first.d_k, 256);
  EXPECT_EQ(first.attention.window, 1024);
  EXPECT_EQ(config.decoder.layers[5].attention.window, 0);
  EXPECT_EQ(config.decoder.layers[5].attention.positions.rotary_scaling.factor, 8);
}

TEST(Wrappers, RefuseUnknownFieldsOfEitherConfiguration) {
  json config = gemma3_4b();
  config["text_gate"] = 0.5;
  expect_parts(refusal(config), {"config.json: text_gate: unknown field"});
  config = gemma3_4b();
  config["text_config"]["text_gate"] = 0.5;
  expect_parts(refusal(config), {"config.json: text_config", "text_gate: unknown field"});
  config = gemma3_4b();
  config["architectures"] = {"Gemma3ForSequenceClassification"};
  expect_parts(refusal(config), {"architectures", "expected Gemma3ForConditionalGeneration"});
}

TEST(Wrappers, OthersAreRefusedByTheirLayers) {
  json config = gemma3_4b();
  config["model_type"] = "mllama";
  expect_parts(refusal(config), {"model_type", "mllama has layers of cross-attention to images"});
  config["model_type"] = "paligemma";
  expect_parts(refusal(config), {"model_type", "paligemma has attention in both directions to the prompt"});
}

TEST(Wrappers, LogThatImagesAreNotRead) {
  std::vector<std::string> log;
  set_log_sink([&](LogLevel, const std::string& message) { log.push_back(message); });
  load_language_model(FamilyCase("gemma3").folder);
  set_log_sink({});
  ASSERT_EQ(log.size(), 2U);
  expect_parts(log[0], {"\"gemma3\"", "only the language model", "gemma3_text", "images are not read"});
  expect_parts(log[1], {"not read, because the opened model has no such part", "multi_modal_projector"});
}

TEST(Wrappers, CopiesAreTheLanguageModelAlone) {
  const FolderCopy original("gemma3_untied_capped");
  const auto& [one, from] = original;
  original.add_field(R"("eos_token_id": 7)");
  from.write("preprocessor_config.json", "{}");
  from.write("chat_template.json", "{}");
  const Scratch scratch;
  const std::filesystem::path to = scratch / "copy";
  quantize_folder(from.path(), to, DType::f32);
  const json config = json::parse(read_file(to / "config.json"));
  EXPECT_EQ(config["model_type"], "gemma3_text");
  EXPECT_EQ(config["architectures"], json({"Gemma3ForCausalLM"}));
  EXPECT_EQ(config["eos_token_id"], 7);
  EXPECT_FALSE(config.contains("vision_config"));
  EXPECT_FALSE(std::filesystem::exists(to / "preprocessor_config.json"));
  EXPECT_TRUE(std::filesystem::exists(to / "chat_template.json"));
  for (const std::string& name : io::SafetensorsFile(to / "model.safetensors").names())
    EXPECT_TRUE(name.starts_with("model.layers.") || name == "model.embed_tokens.weight" ||
                name == "model.norm.weight" || name == "lm_head.weight")
        << name;
  nn::ForwardContext context;
  const auto model = load_language_model(to);
  expect_close(flat(model->logits()((*model)(one.texts, context)).value()), one.expected["logits"], "logits",
               5e-6);
}

// PEFT finds the modules by their names within the whole.
TEST(Wrappers, AdaptersAreNamedAfterTheWhole) {
  const FamilyCase one("gemma3");
  const auto model = load_language_model(one.folder, {.trainable = true});
  const Scratch folder;
  {
    const nn::LowRankAdapter adapter(*model, {.rank = 2, .targets = {"q_proj"}});
    nn::initialise(adapter, 3);
    save_adapter(folder.path(), adapter, [](const nn::ParameterVisitor&) {}, *model, one.model_type(),
                 {.folder = one.folder, .task_type = "CAUSAL_LM"});
  }
  EXPECT_TRUE(io::SafetensorsFile(folder / kAdapterWeights)
                  .contains("base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_A.weight"));
  EXPECT_NO_THROW(load_language_model(one.folder, {.adapter = folder.path()}));
}

}  // namespace
