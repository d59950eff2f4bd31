// Language models within models of images (qkv/models/hub/parts/wrappers.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/models/hub/adapters/adapter.h"
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

// The language model's fields are beside the others, and rotary positions are those of three sections.
TEST(Wrappers, ReadTheFirstFoldersOfQwen) {
  const json whole = json::parse(R"({
    "architectures": ["Qwen2_5_VLForConditionalGeneration"], "attention_dropout": 0.0, "bos_token_id": 151643,
    "eos_token_id": 151645, "vision_start_token_id": 151652, "vision_end_token_id": 151653,
    "vision_token_id": 151654, "image_token_id": 151655, "video_token_id": 151656, "hidden_act": "silu",
    "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 11008,
    "max_position_embeddings": 128000, "max_window_layers": 70, "model_type": "qwen2_5_vl",
    "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    "transformers_version": "4.41.2", "use_cache": true, "use_sliding_window": false,
    "vision_config": {"depth": 32}, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "vocab_size": 151936})");
  const LanguageModelConfig config = config_of(whole);
  EXPECT_TRUE(config.tied);
  EXPECT_EQ(config.decoder.size(), 36);
  const nn::PositionOptions& positions = config.decoder.first().attention.positions;
  EXPECT_EQ(positions.rotary_base, 1e6);
  EXPECT_EQ(positions.rotary_scaling.kind, nn::RotaryScalingKind::none);
  // As transformers 4 saves them: the fields are at both places, and those of "text_config" count.
  json both = whole;
  both["text_config"] = whole;
  both["text_config"].erase("vision_config");
  both["text_config"]["model_type"] = "qwen2_5_vl_text";
  both["hidden_size"] = 1024;
  both["tie_word_embeddings"] = false;  // of "text_config" as well
  EXPECT_EQ(config_of(both).decoder, config.decoder);
  EXPECT_EQ(config_of(both).embedding.d_model, 2048);
  EXPECT_TRUE(config_of(both).tied);
}

TEST(Wrappers, LanguageModelsOfSeveralFamilies) {
  const LanguageModelConfig llava = config_of(json::parse(R"({
    "architectures": ["LlavaForConditionalGeneration"], "ignore_index": -100, "image_token_index": 32000,
    "model_type": "llava", "pad_token_id": 32001, "projector_hidden_act": "gelu",
    "text_config": {"_name_or_path": "lmsys/vicuna-7b-v1.5", "architectures": ["LlamaForCausalLM"],
                    "max_position_embeddings": 4096, "model_type": "llama", "rms_norm_eps": 1e-05,
                    "torch_dtype": "float16", "vocab_size": 32064},
    "tie_word_embeddings": false, "torch_dtype": "float16", "vision_config": {}, "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default", "vocab_size": 32064})"));
  EXPECT_EQ(llava.decoder.size(), 32);
  EXPECT_EQ(llava.decoder.first().d_ff, 11008);
  EXPECT_EQ(llava.vocabulary, 32064);
  EXPECT_FALSE(llava.tied);
  const json mistral = json::parse(R"({
    "architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": 10, "model_type": "mistral3",
    "multimodal_projector_bias": false, "projector_hidden_act": "gelu", "spatial_merge_size": 2,
    "text_config": {"attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120,
                    "initializer_range": 0.02, "intermediate_size": 32768, "max_position_embeddings": 131072,
                    "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 40,
                    "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000000.0,
                    "sliding_window": null, "use_cache": true, "vocab_size": 131072},
    "torch_dtype": "bfloat16", "vision_config": {}, "vision_feature_layer": -1})");
  EXPECT_EQ(config_of(mistral).decoder.first().attention.positions.rotary_base, 1e9);
  EXPECT_EQ(config_of(mistral).decoder.first().attention.window, 0);
  const json internvl = json::parse(R"({
    "architectures": ["InternVLForConditionalGeneration"], "downsample_ratio": 0.5, "image_seq_length": 256,
    "model_type": "internvl", "text_config": {
      "architectures": ["Qwen2ForCausalLM"], "hidden_size": 896, "intermediate_size": 4864,
      "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
      "rope_scaling": {"factor": 2.0, "rope_type": "dynamic", "type": "dynamic"}, "rope_theta": 1000000.0,
      "torch_dtype": "bfloat16", "vocab_size": 151674}})");
  EXPECT_EQ(config_of(internvl).max_positions, 32768);
  json other = mistral;
  other["text_config"]["model_type"] = "mamba";
  expect_parts(refusal(other), {"text_config", "expected a language model", "mamba has state-space layers"});
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
  load_language_model(FamilyCase("mistral3").folder);
  set_log_sink({});
  ASSERT_EQ(log.size(), 1U);
  expect_parts(log[0], {"\"mistral3\"", "only the language model", "mistral", "images are not read"});
}

TEST(Wrappers, CopiesAreTheLanguageModelAlone) {
  const FolderCopy original("mistral3");
  const auto& [one, from] = original;
  original.add_field(R"("eos_token_id": 7)");
  from.write("preprocessor_config.json", "{}");
  from.write("chat_template.json", R"({"chat_template": "{{ messages }}"})");
  const Scratch scratch;
  const std::filesystem::path to = scratch / "copy";
  quantize_folder(from.path(), to, DType::f32);
  const json config = json::parse(read_file(to / "config.json"));
  EXPECT_EQ(config["model_type"], "mistral");
  EXPECT_EQ(config["architectures"], json({"MistralForCausalLM"}));
  EXPECT_EQ(config["eos_token_id"], 7);
  EXPECT_FALSE(config.contains("vision_config"));
  EXPECT_FALSE(std::filesystem::exists(to / "preprocessor_config.json"));
  EXPECT_EQ(read_file(to / "chat_template.jinja"), "{{ messages }}");
  for (const std::string& name : io::SafetensorsFile(to / "model.safetensors").names())
    EXPECT_TRUE(name.starts_with("model.layers.") || name == "model.embed_tokens.weight" ||
                name == "model.norm.weight" || name == "lm_head.weight")
        << name;
  nn::ForwardContext context;
  const auto model = load_language_model(to);
  expect_close(flat(model->logits()((*model)(one.texts, context)).value()), one.expected["logits"], "logits",
               5e-6);
}

// As transformers 4 has saved Qwen3-VL's experts.
TEST(Wrappers, TransposedExperts) {
  const FolderCopy copy("qwen3_vl_moe");
  const FamilyCase& one = copy.one;
  int64_t changed = 0;
  copy.rewrite([&](std::vector<io::NamedTensor>& tensors) {
    for (auto& [name, tensor] : tensors) {
      if (name.find(".experts.") == std::string::npos) continue;
      const int64_t experts = tensor.dim(0), rows = tensor.dim(1), columns = tensor.dim(2);
      Tensor whole = Tensor::empty({experts * columns, rows});
      for (int64_t i = 0; i < experts; ++i)
        whole.slice_rows(i * columns, columns)
            .copy_from(kernels::transposed(tensor.slice_rows(i, 1).reshape({rows, columns})));
      tensor = whole.reshape({experts, columns, rows});
      ++changed;
    }
  });
  EXPECT_EQ(changed, 4);
  nn::ForwardContext context;
  EXPECT_TRUE(
      std::ranges::equal((*load_language_model(copy.folder.path()))(one.texts, context).value().values(),
                         (*load_language_model(one.folder))(one.texts, context).value().values()));
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
