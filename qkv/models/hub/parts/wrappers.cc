#include "qkv/models/hub/parts/wrappers.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/models/families/experts/expert_layers.h"
#include "qkv/models/hub/config_reader.h"

namespace qkv::models {
namespace {

using Json = nlohmann::json;

constexpr const char *kInner = "text_config", *kTied = "tie_word_embeddings";
constexpr std::string_view kFusedExperts = "qwen3_vl_moe_text";

constexpr std::array<Wrapper, 16> kWrappers{{
    {"aya_vision", "AyaVisionForConditionalGeneration", "cohere2", true},
    {"cohere2_vision", "Cohere2VisionForConditionalGeneration", "cohere2", true},
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", true},
    {.model_type = "gemma4",
     .architecture = "Gemma4ForConditionalGeneration",
     .inner = "gemma4_text",
     .tied = true,
     .own_logits = true},
    {"glm4v", "Glm4vForConditionalGeneration", "glm4v_text", false, true},
    {"idefics3", "Idefics3ForConditionalGeneration", "llama", false, false, "model.text_model."},
    {"internvl", "InternVLForConditionalGeneration", "qwen2", true},
    {.model_type = "llama4",
     .architecture = "Llama4ForConditionalGeneration",
     .inner = "llama4_text",
     .tied = {},
     .prefix = "language_model.model.",
     .own_logits = true},
    {"llava", "LlavaForConditionalGeneration", "llama", false, true},
    {"llava_next", "LlavaNextForConditionalGeneration", "llama"},
    {"mistral3", "Mistral3ForConditionalGeneration", "mistral", true},
    {"qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", false, true},
    {"qwen2_vl", "Qwen2VLForConditionalGeneration", "qwen2_vl_text", false, true},
    {"qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl_text"},
    {"qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", kFusedExperts},
    {"smolvlm", "SmolVLMForConditionalGeneration", "llama", false, false, "model.text_model."},
}};

// A language model's family, and transformers' defaults where the family has none, or others.
struct Inner {
  std::string_view model_type, family;
  int64_t vocabulary, d_model, d_ff, layers, heads;
  const char* others = "{}";
};
constexpr const char* kQwen2Vl =
    R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "max_window_layers": 80})";
constexpr std::array<Inner, 14> kInners{{
    {"cohere2", "cohere2", 256000, 8192, 22528, 40, 64},
    {"gemma3_text", "gemma3_text", 262208, 2304, 9216, 26, 8},
    {"gemma4_text", "gemma4_text", 262144, 2304, 9216, 30, 8},
    {"glm4v_text", "glm4", 151552, 4096, 13696, 40, 32,
     R"({"head_dim": null, "max_position_embeddings": 32768, "partial_rotary_factor": 1, "rms_norm_eps": 1e-5})"},
    {"llama", "llama", 32000, 4096, 11008, 32, 32},
    {"llama4_text", "llama4_text", 202048, 5120, 8192, 48, 40},
    {"ministral3", "ministral3", 131072, 4096, 14336, 34, 32},
    {"mistral", "mistral", 32000, 4096, 14336, 32, 32},
    {"qwen2", "qwen2", 151936, 4096, 22016, 32, 32},
    {"qwen2_5_vl_text", "qwen2", 152064, 8192, 29568, 80, 64, kQwen2Vl},
    {"qwen2_vl_text", "qwen2", 152064, 8192, 29568, 80, 64, kQwen2Vl},
    {"qwen3", "qwen3", 151936, 4096, 22016, 32, 32},
    {"qwen3_vl_text", "qwen3", 151936, 4096, 22016, 32, 32,
     R"({"max_position_embeddings": 128000, "rope_theta": 5e5})"},
    {kFusedExperts, "qwen3_moe", 151936, 2048, 5632, 24, 16,
     R"({"max_position_embeddings": 128000, "moe_intermediate_size": 1408, "num_experts": 60,
         "num_experts_per_tok": 4, "num_key_value_heads": 16, "rope_theta": 5e5})"},
}};

// Of images, videos and sounds; and what only the first programs of such models read.
constexpr std::string_view kOfImages =
    "_flash_attn_2_enabled _pad_token_id adapter_layer_norm_eps alignment_intermediate_size audio_config "
    "audio_token_id "
    "boa_token_id boi_token_id boi_token_index downsample_factor downsample_ratio eoa_token_id "
    "eoa_token_index eoi_token_id eoi_token_index ignore_index image_end_token_id image_grid_pinpoints "
    "image_seq_len image_seq_length image_start_token_id image_token_id image_token_index "
    "mm_tokens_per_image "
    "multimodal_projector_bias neftune_noise_alpha perceiver_config pixel_shuffle_factor "
    "projector_hidden_act qk_layer_norms scale_factor spatial_merge_size use_image_newline_parameter "
    "use_resampler video_end_token_id video_start_token_id video_token_id video_token_index vision_config "
    "vision_end_token_id vision_feature_layer vision_feature_select_strategy vision_soft_tokens_per_image "
    "vision_start_token_id "
    "vision_token_id";

// Of the whole, in place of the language model's.
constexpr std::string_view kOfTheWhole =
    "auto_map bos_token_id dtype eos_token_id pad_token_id quantization_config torch_dtype";

// Texts have the same position in each section of Qwen-VL's positions, which is that of other models. Up to
// the model's length, and longer texts are refused, dynamic positions (InternVL) are plain ones.
void set_positions(Json& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_object()) continue;
    if (found->contains("rope_type")) found->erase("type");
    for (const char* type : {"rope_type", "type"}) {
      const Json kind = found->value(type, Json());
      if (kind == "dynamic") found->erase("factor");
      if (kind == "dynamic" || kind == "mrope") (*found)[type] = "default";
    }
    found->erase("mrope_section");
    found->erase("mrope_interleaved");
  }
}

// Those of the language model alone.
void set_logits(Json& config, std::string_view family) {
  config["final_logit_softcapping"] = nullptr;
  if (family.starts_with("cohere")) config["logit_scale"] = 1;
  if (family.starts_with("granite")) config["logits_scaling"] = 1;
}

// The fields of "text_config"; in Qwen-VL's first folders, they are beside the others.
Json inner_fields(const ConfigReader& outer, const Wrapper& wrapper, Json whole) {
  if (!outer.has(kInner) && wrapper.inner.starts_with("qwen2_")) return whole;
  Json inner = Json::object();
  if (outer.has(kInner)) {
    outer.object(kInner);
    inner = std::move(whole[kInner]);
  }
  // A copy of the language model's field is not read.
  for (const auto& [key, value] : inner.items()) outer.ignore(key);
  outer.ignore(kOfImages);
  outer.ignore(kOfTheWhole);
  outer.reject_unknown_model_fields();
  return inner;
}

}  // namespace

std::string_view without_own(std::string_view model_type) {
  if (model_type.starts_with(kOwnLayout)) model_type.remove_prefix(kOwnLayout.size());
  return model_type;
}

const Wrapper* find_wrapper(std::string_view model_type) {
  const auto found = std::ranges::find(kWrappers, without_own(model_type), &Wrapper::model_type);
  return found == kWrappers.end() ? nullptr : &*found;
}

std::string unwrapped_config(const std::string& text, const std::string& path) {
  const ConfigReader outer(text, path);
  const auto named = outer.find("model_type");
  const Wrapper* wrapper = named && named->is_string() ? find_wrapper(named->string()) : nullptr;
  if (wrapper == nullptr) return text;
  const std::vector<std::string> classes = outer.strings("architectures");
  if (!classes.empty() && classes.front() != wrapper->architecture)
    outer.reject("architectures", std::string(wrapper->architecture));
  const bool tied = outer.boolean(kTied, wrapper->tied.value_or(false));
  const Json whole = Json::parse(text, nullptr, false);
  if (whole.is_discarded()) throw DataError(concat(path, ": expected numbers within a double's range"));
  const Json given = inner_fields(outer, *wrapper, whole);
  std::string type(wrapper->inner);
  if (!type.ends_with("_text") && outer.has(kInner)) type = outer.object(kInner).string("model_type", type);
  Json config = Json::object();
  std::string_view family = type;
  if (const auto known = std::ranges::find(kInners, type, &Inner::model_type); known != kInners.end()) {
    family = known->family;
    config = Json::parse(known->others);
    config.update({{"vocab_size", known->vocabulary},
                   {"hidden_size", known->d_model},
                   {"intermediate_size", known->d_ff},
                   {"num_hidden_layers", known->layers},
                   {"num_attention_heads", known->heads}});
  }
  config.update(given);
  for (const std::string& key : words_of(kOfImages)) config.erase(key);
  const std::vector<std::string> dtypes{"dtype", "torch_dtype"};
  if (std::ranges::any_of(dtypes, [&](const auto& key) { return outer.has(key); })) {
    for (const std::string& key : dtypes) config.erase(key);
  }
  for (const std::string& key : words_of(kOfTheWhole)) {
    if (outer.has(key)) config[key] = whole[key];
  }
  config.erase("architectures");
  const bool own = named->string() != wrapper->model_type;
  config["model_type"] = concat(own ? kOwnLayout : "", family);
  if (wrapper->tied && (tied || !wrapper->tied_by_either)) config[kTied] = tied;
  if (type == kFusedExperts) {
    config["norm_topk_prob"] = true;  // whatever it says
    if (const Json count = config.value("num_local_experts", Json()); !count.is_null())
      config["num_experts"] = count;
    config.erase("num_local_experts");
  }
  if (!wrapper->own_logits) set_logits(config, family);
  set_positions(config);
  return config.dump(2);
}

WeightMap wrapped_map(WeightMap map, const Wrapper& wrapper, const nn::StackOptions& stack) {
  const std::string whole(wrapper.prefix), alone = "model.", head = "lm_head";
  const auto within = [&](std::string& name) {
    if (name.starts_with(alone)) name.replace(0, alone.size(), whole);
  };
  const ExpertLayers mixed = expert_layers(stack);
  for (WeightRule& rule : map.rules) {
    within(rule.theirs);
    within(rule.module);
    if (rule.theirs == head || std::ranges::count(rule.also, head) > 0)
      rule.also.push_back("language_model." + head);
    const size_t expert = rule.theirs.find("experts.*.");
    if (wrapper.inner != kFusedExperts || expert == std::string::npos) continue;
    const bool down = rule.ours.ends_with("fc2");
    rule.theirs = rule.theirs.substr(0, expert) + (down ? "experts.down_proj" : "experts.gate_up_proj");
    rule.layout = Layout::transposed;
    rule.experts = mixed.experts.count;
    if (down) continue;
    rule.outputs = 2 * mixed.d_ff;
    rule.first_output = rule.ours.ends_with("fc1") ? mixed.d_ff : 0;
  }
  map.prefix = whole;
  map.other_parts = {
      "image_newline", "model.connector.", "model.image_newline",    "model.multi_modal_projector.",
      "model.vision_", "model.visual.",    "multi_modal_projector.", "vision_",
      "visual."};
  for (const char* other : {"model.language_model.", "language_model.model.", "model."}) {
    if (other != whole) map.other_prefixes.emplace_back(other);
  }
  return map;
}

void fit_experts(WeightMap& map, const Wrapper& wrapper, const nn::StackOptions& stack,
                 const TensorFiles& files) {
  const int64_t d_ff = expert_layers(stack).d_ff;
  for (WeightRule& rule : map.rules) {
    if (wrapper.inner != kFusedExperts || rule.experts == 0) continue;
    for (int64_t layer = 0; layer < stack.size(); ++layer) {
      const std::string parameter = concat(rule.ours.substr(0, rule.ours.find('#')), layer, ".experts.0",
                                           rule.ours.substr(rule.ours.rfind('.')), ".weight");
      for (const std::string& name : possible_names(map, mapped_name(map, parameter))) {
        if (!files.contains(name)) continue;
        const Shape shape = files.file_of(name, {}).shape(name);
        if (shape.rank() == 3 && (rule.outputs > 0 ? shape[1] == rule.outputs : shape[2] == d_ff))
          rule.layout = Layout::same;
      }
    }
  }
}

}  // namespace qkv::models
