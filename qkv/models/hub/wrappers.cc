#include "qkv/models/hub/wrappers.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "qkv/models/families/experts/expert_layers.h"
#include "qkv/models/hub/config_reader.h"

namespace qkv::models {
namespace {

using Json = nlohmann::json;

constexpr const char *kInner = "text_config", *kTied = "tie_word_embeddings";
constexpr std::string_view kFusedExperts = "qwen3_vl_moe_text";

constexpr std::array<Wrapper, 1> kWrappers{{{.model_type = "gemma3",
                                             .architecture = "Gemma3ForConditionalGeneration",
                                             .inner = "gemma3_text",
                                             .tied = true}}};

// A language model's family, and transformers' defaults where the family has none, or others.
struct Inner {
  std::string_view model_type, family;
  int64_t vocabulary, d_model, d_ff, layers, heads;
  const char* others = "{}";
};
constexpr std::array<Inner, 1> kInners{{{"gemma3_text", "gemma3_text", 262208, 2304, 9216, 26, 8}}};

// Of images, videos and sounds; and what only the first programs of such models read.
constexpr std::string_view kOfImages =
    "_flash_attn_2_enabled adapter_layer_norm_eps alignment_intermediate_size audio_config audio_token_id "
    "boa_token_id boi_token_id boi_token_index downsample_factor downsample_ratio eoa_token_id "
    "eoa_token_index eoi_token_id eoi_token_index ignore_index image_end_token_id image_grid_pinpoints "
    "image_seq_length image_start_token_id image_token_id image_token_index mm_tokens_per_image "
    "multimodal_projector_bias neftune_noise_alpha perceiver_config pixel_shuffle_factor "
    "projector_hidden_act qk_layer_norms scale_factor spatial_merge_size use_image_newline_parameter "
    "use_resampler video_end_token_id video_start_token_id video_token_id video_token_index vision_config "
    "vision_end_token_id vision_feature_layer vision_feature_select_strategy vision_start_token_id "
    "vision_token_id";

// Of the whole, in place of the language model's.
constexpr std::string_view kOfTheWhole =
    "auto_map bos_token_id dtype eos_token_id pad_token_id quantization_config torch_dtype";

// Texts have the same position in each section of Qwen-VL's positions, which is that of other models.
void drop_sections(Json& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_object()) continue;
    if (found->contains("rope_type")) found->erase("type");
    for (const char* type : {"rope_type", "type"}) {
      if (found->contains(type) && (*found)[type] == "mrope") (*found)[type] = "default";
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

const Wrapper* find_wrapper(std::string_view model_type) {
  const auto found = std::ranges::find(kWrappers, model_type, &Wrapper::model_type);
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
  const Json whole = Json::parse(text);
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
  if (outer.has("dtype") || outer.has("torch_dtype")) config.erase("dtype"), config.erase("torch_dtype");
  for (const std::string& key : words_of(kOfTheWhole)) {
    if (outer.has(key)) config[key] = whole[key];
  }
  config.erase("architectures");
  config["model_type"] = family;
  if (wrapper->tied && (tied || !wrapper->tied_by_either)) config[kTied] = tied;
  if (type == kFusedExperts) config["norm_topk_prob"] = true;  // whatever it says
  if (!wrapper->own_logits) set_logits(config, family);
  drop_sections(config);
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
  for (const char* other : {"model.language_model.", "language_model.model.", "model."}) {
    if (other != whole) map.other_prefixes.emplace_back(other);
  }
  return map;
}

}  // namespace qkv::models
