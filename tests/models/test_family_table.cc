// A family's table reads and writes layers that differ, refuses what it cannot express, and reads the fields
// of older programs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/hub/family.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/hub/read_config.h"
#include "tests/models/family_case.h"
#include "tests/models/weight_files.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

// As "layer_types" of Gemma 3 and Qwen 2.
void alternating_table(const Fields& fields, Described<LanguageModelConfig>& model) {
  auto& [config, layer, layers] = model;
  fields("vocab_size", config.vocabulary);
  fields("hidden_size", layer.d_model);
  fields("intermediate_size", layer.d_ff);
  std::vector<std::string> kinds;
  int64_t window = 0;
  for (const nn::LayerOptions& one : config.decoder.layers) {
    kinds.emplace_back(one.attention.window > 0 ? "sliding_attention" : "full_attention");
    window = std::max(window, one.attention.window);
  }
  fields("sliding_window", window);
  fields("layer_types", kinds);
  config.decoder.layers = nn::alike(std::ssize(kinds), layer);
  for (size_t i = 0; i < kinds.size(); ++i)
    config.decoder.layers[i].attention.window = kinds[i] == "sliding_attention" ? window : 0;
}

TEST(FamilyTable, LayersMayDiffer) {
  const LanguageFamily family{.model_type = "alternating",
                              .classes = {{"AlternatingForCausalLM"}},
                              .base = {},
                              .table = alternating_table,
                              .weight_map = [](const LanguageModelConfig&) { return WeightMap(); }};
  const std::string text = R"({"vocab_size": 9, "hidden_size": 4, "intermediate_size": 8, "sliding_window": 3,
                               "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})";
  const LanguageModelConfig config = family.parse(ConfigReader(text, "config.json"));
  ASSERT_EQ(config.decoder.size(), 3);
  EXPECT_EQ(config.decoder.layers[0].attention.window, 3);
  EXPECT_EQ(config.decoder.layers[1].attention.window, 0);
  const LanguageModelConfig again =
      family.parse(ConfigReader(family.serialize(config).json(), "config.json"));
  EXPECT_EQ(again.decoder, config.decoder);
  LanguageModelConfig other = config;
  other.decoder.layers[2].attention.window = 2;
  EXPECT_EQ(message_of<UsageError>([&] { family.serialize(other); }),
            "alternating: decoder.layers.2.attention.window: expected 3, as config.json has no field for "
            "another value, found 2");
}

// transformers also writes the lists that follow from "max_window_layers" and "no_rope_layer_interval"; older
// folders have these alone.
TEST(FamilyTable, ListsOfLayersFollowFromOlderFields) {
  for (const auto& [folder, list, least] : {std::tuple("qwen2_windows", "layer_types", "max_window_layers"),
                                            {"qwen3_windows", "layer_types", "max_window_layers"},
                                            {"smollm3", "no_rope_layers", "no_rope_layer_interval"}}) {
    const Scratch copy;
    std::filesystem::copy(std::filesystem::path(QKV_TEST_DATA) / "models/golden" / folder, copy.path());
    const nn::StackOptions whole = load_language_model(copy.path())->config().decoder;
    EXPECT_THROW(whole.uniform(), UsageError) << folder << ": its layers differ";
    auto config = nlohmann::ordered_json::parse(read_file(copy / "config.json"));
    config.erase(list);
    copy.write("config.json", config.dump());
    EXPECT_EQ(load_language_model(copy.path())->config().decoder, whole) << folder;
    config[least] = 0;
    copy.write("config.json", config.dump());
    if (least == std::string_view("no_rope_layer_interval")) {
      expect_throw<DataError>(least, [&] { load_language_model(copy.path()); });
    } else {
      EXPECT_GT(load_language_model(copy.path())->config().decoder.first().attention.window, 0);
    }
    config[least] = 2;
    config[list] = {"full_attention"};
    copy.write("config.json", config.dump());
    expect_throw<DataError>(list, [&] { load_language_model(copy.path()); });
  }
}

// The configuration of a golden folder after a change of its config.json.
template <class Change>
LanguageModelConfig changed(const char* folder, const Change& change) {
  const Scratch copy;
  std::filesystem::copy(std::filesystem::path(QKV_TEST_DATA) / "models/golden" / folder, copy.path());
  auto config = nlohmann::ordered_json::parse(read_file(copy / "config.json"));
  change(config);
  copy.write("config.json", config.dump());
  return load_language_model(copy.path())->config();
}

TEST(FamilyTable, Gemma3sFieldsBeforeTransformers5GiveTheSameModel) {
  const char* folder = "gemma3_text_untied_biased";
  const nn::StackOptions now = changed(folder, [](auto&) {}).decoder;
  const nn::StackOptions before = changed(folder, [](auto& config) {
                                    config.erase("rope_parameters");
                                    config.erase("layer_types");
                                    config["rope_theta"] = 500;
                                    config["rope_local_base_freq"] = 100;
                                    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.5}};
                                    config["sliding_window_pattern"] = 2;
                                  }).decoder;
  EXPECT_EQ(before, now);
  EXPECT_EQ(now.layers[0].attention.positions.rotary_base, 100);
  EXPECT_EQ(now.layers[1].attention.positions.rotary_base, 500);
  for (const auto& [field, value] : {std::pair<const char*, nlohmann::json>{"attn_logit_softcapping", 2.0},
                                     {"sliding_window_pattern", 0},
                                     {"query_pre_attn_scalar", 0}})
    expect_throw<DataError>(field, [&] { changed(folder, [&](auto& config) { config[field] = value; }); });
  expect_throw<DataError>("config.json: causal: expected true, as the next token is predicted", [&] {
    changed(folder, [](auto& config) { config["use_bidirectional_attention"] = true; });
  });
}

// Also of families that read LLaMA's class.
TEST(FamilyTable, DecodersAsEncodersHaveTransformersNamesOfClasses) {
  for (const auto& [model_type, name] : {std::pair("internlm3", "InternLM3"),
                                         {"iquestcoder", "IQuestCoder"},
                                         {"gemma3_text", "Gemma3Text"},
                                         {"gpt2", "GPT2"}}) {
    const auto family = std::ranges::find(encoder_families(), model_type, &EncoderFamily::model_type);
    ASSERT_NE(family, encoder_families().end());
    EXPECT_EQ(family->classes[0].name, concat(name, "Model"));
    EXPECT_EQ(family->own_class, concat(name, "ForSequenceClassification"));
  }
}

// Folders without "layer_types" have a period of the layers without a window, which also have no positions.
TEST(FamilyTable, APeriodOfLayersWithoutAWindow) {
  for (const auto& [folder, period] :
       {std::pair("exaone4_windows", "sliding_window_pattern"), {"cohere2", "sliding_window_pattern"}}) {
    const nn::StackOptions now = changed(folder, [](auto&) {}).decoder;
    EXPECT_GT(now.layers[0].attention.window, 0);
    EXPECT_EQ(now.layers[0].attention.positions.kind, nn::PositionKind::rotary);
    EXPECT_EQ(now.layers[1].attention.window, 0);
    EXPECT_EQ(now.layers[1].attention.positions.kind, nn::PositionKind::none);
    const auto older = [&](int64_t layers) {
      return changed(folder,
                     [&](auto& config) {
                       config.erase("layer_types");
                       config[period] = layers;
                     })
          .decoder;
    };
    EXPECT_EQ(older(2), now) << folder;
    EXPECT_GT(older(3).layers[1].attention.window, 0) << folder;
    expect_throw<DataError>(period, [&] { older(0); });
  }
}

// Folders without the lists of layers that have experts, windows and positions.
TEST(FamilyTable, ListsOfMixedLayersFollowFromOtherFields) {
  const auto same = [](const char* folder, std::initializer_list<const char*> lists,
                       const nlohmann::json& fields) {
    const nn::StackOptions whole = changed(folder, [](auto&) {}).decoder;
    const auto change = [&](auto& config) {
      for (const char* list : lists) config.erase(list);
      config.update(fields);
    };
    EXPECT_EQ(changed(folder, change).decoder, whole) << folder;
  };
  const nlohmann::json none = nlohmann::json::object();
  same("cohere2_moe", {"mlp_layer_types", "layer_types"},
       {{"first_k_dense_replace", 1}, {"sliding_window_pattern", 2}});
  same("exaone_moe", {"mlp_layer_types", "layer_types"},
       {{"first_k_dense_replace", 1}, {"sliding_window_pattern", 2}});
  same("axk1", {"mlp_layer_types"}, {{"first_k_dense_replace", 1}});
  same("hy_v3", {"mlp_layer_types"}, none);
  same("llama4_text_biased", {"moe_layers", "no_rope_layers", "layer_types"}, none);
  same("modernbert-decoder", {"layer_types"}, none);
  same("modernbert-decoder_untied_biased", {"rope_parameters", "layer_types"},
       {{"global_rope_theta", 160000}, {"local_rope_theta", 10000}});
  const auto mixed = [](const char* folder, const char* list) {
    const Scratch copy;
    auto config = nlohmann::ordered_json::parse(
        read_file(std::filesystem::path(QKV_TEST_DATA) / "models/golden" / folder / "config.json"));
    config.erase(list);
    copy.write("config.json", config.dump());
    std::vector<bool> found;
    for (const nn::LayerOptions& layer : read_language_model_config(copy.path()).decoder.layers)
      found.push_back(layer.experts.count > 0);
    return found;
  };
  EXPECT_EQ(mixed("flint", "mlp_only_layers"), (std::vector{false, false}));
  EXPECT_EQ(mixed("mimo_v2_flash", "mlp_layer_types"), (std::vector{false, true}));
  EXPECT_EQ(mixed("mellum", "mlp_layer_types"), (std::vector{true, true}));
}

// Longer texts would need chunks of attention, and queries that grow.
TEST(FamilyTable, Llama4ReadsTextsOfOneChunk) {
  const auto positions = [](const nlohmann::json& fields) {
    return changed("llama4_text", [&](auto& config) { config.update(fields); }).max_positions;
  };
  EXPECT_EQ(positions(nlohmann::json::object()), 20);
  EXPECT_EQ(positions({{"attention_chunk_size", 7}}), 7);
  EXPECT_EQ(positions({{"floor_scale", 6}}), 5);
  EXPECT_EQ(positions({{"floor_scale", 6}, {"attn_temperature_tuning", false}}), 20);
  EXPECT_EQ(
      positions({{"attention_chunk_size", nullptr}, {"layer_types", {"full_attention", "full_attention"}}}),
      20);
}

// A fixed "alpha" is a larger base; "dynamic" scaling without it would depend on the length of the text.
TEST(FamilyTable, HunyuansAlphaIsALargerBase) {
  const auto base = [](double alpha) {
    return changed("hunyuan_v1_dense", [&](auto& config) { config["rope_parameters"]["alpha"] = alpha; })
        .decoder.first()
        .attention.positions.rotary_base;
  };
  EXPECT_NEAR(base(1), 500, 1e-9);
  EXPECT_NEAR(base(16), 500 * std::pow(16, 6.0 / 4), 1e-6);
  expect_throw<DataError>("alpha", [&] { base(0); });
  expect_throw<DataError>("rope_type", [] {
    changed("llama", [](auto& config) { config["rope_parameters"]["rope_type"] = "dynamic"; });
  });
}

TEST(FamilyTable, Ministral3NeedsTheGrowthOfQueries) {
  const auto scaling = [](const auto& change) {
    return changed("ministral3", [&](auto& config) { change(config["rope_parameters"]); })
        .decoder.first()
        .attention.positions.rotary_scaling;
  };
  EXPECT_EQ(scaling([](auto&) {}).query_growth, 0.3);
  EXPECT_NE(scaling([](auto&) {}).magnitude, scaling([](auto& rope) { rope.erase("mscale"); }).magnitude);
  expect_throw<DataError>("llama_4_scaling_beta",
                          [&] { scaling([](auto& rope) { rope.erase("llama_4_scaling_beta"); }); });
  expect_throw<DataError>("rope_parameters",
                          [&] { scaling([](auto& rope) { rope["rope_type"] = "default"; }); });
}

// The first folders of Gemma say "gelu"; the model was trained with the approximation.
TEST(FamilyTable, GemmasGeluIsTheApproximation) {
  const auto activation = [](const char* word) {
    return changed("gemma", [&](auto& config) { config["hidden_act"] = word; }).decoder.first().activation;
  };
  EXPECT_EQ(activation("gelu"), Activation::gelu_tanh);
  EXPECT_EQ(activation("silu"), Activation::silu);
}

using Json = nlohmann::json;

// A golden folder whose config.json is changed.
class Changed {
 public:
  Changed(const std::string& name, const std::function<void(Json&)>& change) : one(name) {
    std::filesystem::copy(one.folder, folder.path(), std::filesystem::copy_options::recursive);
    Json config = Json::parse(read_file(folder / "config.json"));
    change(config);
    folder.write("config.json", config.dump());
  }
  void expect_same_results() const {
    nn::ForwardContext context;
    expect_close(flat((*load_language_model(folder.path()))(one.texts, context).value()),
                 one.expected["hidden"], "hidden", 5e-6);
  }

  FamilyCase one;
  Scratch folder;
};

void expect_refusal(const std::string& name, const std::string& field, const Json& value,
                    const std::string& expected) {
  const Changed changed(name, [&](Json& config) { config[field] = value; });
  const auto load = [&] {
    if (folder_kind(changed.folder.path()) == FolderKind::encoder) {
      load_text_encoder(changed.folder.path());
    } else {
      load_language_model(changed.folder.path());
    }
  };
  expect_parts(message_of<DataError>(load), {"config.json", field, expected});
}

TEST(FamilySettings, OfAnotherComputationAreRefusedByName) {
  expect_refusal("gemma4_text", "num_kv_shared_layers", 1, "expected 0, found 1");
  expect_refusal("gemma4_text", "hidden_size_per_layer_input", 4, "expected 0");
  expect_refusal("gemma4_text", "enable_moe_block", true, "expected false");
  expect_refusal("gemma4_text", "use_bidirectional_attention", "all", "expected null or vision");
  expect_refusal("gemma4_text", "layer_types", {"full_attention", "sliding_attention"}, "as the last");
  expect_refusal("gemma4_text", "rope_parameters",
                 {{"full_attention", {{"rope_type", "proportional"}, {"partial_rotary_factor", 1e300}}}},
                 "a number above 0, at most 1");
  expect_refusal("llama", "rope_scaling", {{"rope_type", "linear"}, {"factor", 2}},
                 "null, or the positions that rope_parameters describes");
  expect_refusal("gemma3_text_untied_biased", "rope_scaling", {{"rope_type", "linear"}, {"factor", 7}},
                 "null, or the positions that rope_parameters describes");
  expect_refusal("phimoe", "num_experts_per_tok", 3, "expected 2");
  expect_refusal("phimoe", "router_jitter_noise", 0, "a number above 0");
  expect_refusal("phimoe", "rope_parameters", {{"rope_type", "linear"}, {"factor", 2}},
                 "longrope or default");
  expect_refusal("xglm", "pad_token_id", 3, "expected 0 or 1");
  expect_refusal("mpnet_base", "relative_attention_num_buckets", 16, "expected 32");
  expect_refusal("apertus", "hidden_act", "gelu", "xielu");
  expect_refusal("electra_base", "embedding_size", 0, "at least 1");
  expect_refusal("modernbert-decoder", "local_attention", nullptr, "at least 2");
  expect_refusal("modernbert-decoder", "sliding_window", 4, "expected 3, found 4");
  expect_refusal("modernbert-decoder", "rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}, "null");
  expect_refusal("modernbert-decoder", "architectures",
                 Json::array({"ModernBertDecoderForSequenceClassification"}), "ModernBertDecoderModel");
  expect_refusal("roformer_base", "rotary_value", true, "expected false");
  expect_refusal("roformer_base", "is_decoder", true, "expected false");
  expect_refusal("hunyuan_v1_moe", "moe_topk", {1, 2}, "the same for each of 2 layers");
  expect_refusal("hunyuan_v1_moe", "num_shared_expert", 2, "expected 1");
  expect_refusal("hunyuan_v1_moe", "moe_intermediate_size", {8, 8}, "expected intermediate_size");
  expect_refusal("hy_v3", "mlp_bias", true, "expected false");
  expect_refusal("hy_v3", "norm_topk_prob", false, "expected true");
  expect_refusal("cohere2_moe", "expert_selection_fn", "max", "one of softmax, sigmoid");
  expect_refusal("cohere2_moe", "shared_expert_combination_strategy", "max", "one of average, sum");
  expect_refusal("cohere2_moe", "mlp_layer_types", {"dense", "moe"}, "2 kinds, dense or sparse");
  expect_refusal("hy_v3", "rope_parameters", {{"rope_type", "dynamic"}, {"factor", 2}}, "rope_type");
  expect_refusal("exaone_moe", "mlp_layer_types", Json::array({"dense"}), "2 kinds, dense or sparse");
  expect_refusal("mistral4", "head_dim", 4, "qk_nope_head_dim + qk_rope_head_dim");
  expect_refusal("mistral4", "rope_interleave", false, "expected true");
  expect_refusal("axk1", "q_lora_rank", nullptr, "at least 1");
  expect_refusal("axk1", "moe_layer_freq", 2, "expected 1");
  expect_refusal("flint", "sliding_window", nullptr, "at least 1");
  expect_refusal("kolibri1", "layer_types", {"chunked_attention", "full_attention"}, "full_attention");
  expect_refusal("mellum", "rope_theta", 100, "expected null");
  expect_refusal("mellum", "rope_parameters", nullptr, "an object for each kind of layer");
  expect_refusal("mimo_v2_flash", "n_shared_experts", 1, "unknown field");
  expect_refusal("llama4_text", "layer_types", {"full_attention", "full_attention"}, "chunked_attention");
}

TEST(FamilySettings, ConstantTensorsHaveTheirValue) {
  const Changed apertus("apertus", [](Json&) {});
  const std::string beta = "model.layers.1.mlp.act_fn.beta";
  rewrite_tensor(apertus.folder.path(), beta, [](const Tensor&) { return Tensor(); });
  apertus.expect_same_results();
  const Changed other("apertus", [](Json&) {});
  rewrite_tensor(other.folder.path(), beta, [](const Tensor&) { return Tensor::full(Shape(), 0.75f); });
  expect_parts(message_of<DataError>([&] { load_language_model(other.folder.path()); }),
               {beta, "expected 0.5, found 0.75"});
  const Changed half("apertus", [](Json&) {});  // the f16 nearest to a number of few bits
  rewrite_tensor(half.folder.path(), "model.layers.0.mlp.act_fn.eps",
                 [](const Tensor&) { return Tensor::full(Shape(), -17 * 0x1p-24f); });
  half.expect_same_results();
}

TEST(FamilySettings, MayHaveTheirOlderNames) {
  const auto renamed = [](Json& config, const char* from, const char* to) {
    config[to] = config[from];
    config.erase(from);
  };
  const Changed exaone("exaone", [&](Json& config) {
    renamed(config, "num_hidden_layers", "num_layers");
    renamed(config, "rms_norm_eps", "layer_norm_epsilon");
    renamed(config, "hidden_act", "activation_function");
    config["architectures"] = {"ExaoneForCausalLM"};
  });
  exaone.expect_same_results();
  const Changed gemma4("gemma4_text", [&](Json& config) {
    const Json full = config["per_layer_config"]["1"];
    config.erase("per_layer_config");
    config["global_head_dim"] = full["head_dim"];
    config["num_global_key_value_heads"] = full["num_key_value_heads"];
  });
  gemma4.expect_same_results();
}

}  // namespace
