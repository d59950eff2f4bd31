// Errors in a folder are named; alternative spellings are accepted.

#include "qkv/models/hub/pretrained.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "tests/models/folder_copy.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

TEST(Pretrained, RejectsUnknownFamiliesAndFieldsByName) {
  const std::filesystem::path images = QKV_TEST_DATA "/models/golden/vit_images";
  expect_parts(message_of<DataError>([&] { load_text_encoder(images); }),
               {"config.json", "model_type", "bert, roberta, ", "\"vit\""});
  const FolderCopy gpt2("gpt2");
  gpt2.add_field("\"wings\": 2");
  expect_parts(gpt2.language_error(), {"config.json: wings: unknown field"});

  const FolderCopy other("gpt2");
  other.replace("config.json", "\"model_type\": \"gpt2\"", "\"model_type\": \"gpt-neox\"");
  expect_parts(other.language_error(), {"model_type", "llama, mistral", "gpt-neox"});

  const FolderCopy scaled("llama");
  scaled.replace("config.json", "\"rope_type\": \"default\"", "\"rope_type\": \"dynamic\"");
  expect_parts(scaled.language_error(), {"rope_parameters", "rope_type", "llama3", "dynamic"});
  const FolderCopy old_scaled("llama");
  old_scaled.add_field(R"("rope_scaling": {"type": "dynamic", "factor": 2.0})");
  expect_parts(old_scaled.language_error(), {"rope_scaling", "type", "dynamic"});

  const FolderCopy cross("bert_masked");
  cross.replace("config.json", "\"is_decoder\": false", "\"is_decoder\": true");
  expect_parts(cross.encoder_error(), {"is_decoder", "expected false, found true"});
  const FolderCopy head("bert_masked");
  head.replace("config.json", "BertForMaskedLM", "BertForMultipleChoice");
  expect_parts(head.encoder_error(), {"architectures", "BertForMaskedLM", "BertForMultipleChoice"});
  const FolderCopy activation("bert_masked");
  activation.replace("config.json", "\"gelu_new\"", "\"mish\"");
  expect_parts(activation.encoder_error(), {"hidden_act", "gelu", "mish"});
}

TEST(Pretrained, DetectsTheKindOfAFolder) {
  EXPECT_EQ(folder_kind(FamilyCase("gpt2").folder), FolderKind::language);
  EXPECT_EQ(folder_kind(FamilyCase("bert_base").folder), FolderKind::encoder);
  const Scratch folder;
  folder.write("config.json", R"({"model_type": "marian"})");
  EXPECT_EQ(folder_kind(folder.path()), FolderKind::translation);
  folder.write("config.json", R"({"model_type": "wav2vec2"})");
  expect_parts(message_of<DataError>([&] { folder_kind(folder.path()); }),
               {"llama", "distilbert", "marian", "wav2vec2"});
}

// What a table would have to list, and what the folder would need.
TEST(Pretrained, NamesTheNearestFamilyOfAnUnknownOne) {
  const FolderCopy llama("llama");
  llama.replace("config.json", "\"model_type\": \"llama\"", "\"model_type\": \"lama\"");
  llama.add_field(R"("hidden_activity": "gelu", "torch_dtype": "float32", "scalar_of_scores": 8)");
  const std::string nearest = "(nearest: llama; it has no hidden_activity, scalar_of_scores), found";
  expect_parts(llama.language_error(),
               {"expected a language model (", "llama, mistral", nearest, "\"lama\""});
  llama.replace("config.json", "\"intermediate_size\"", "\"ffn_size\"");
  llama.replace("model.safetensors", "model.layers.1.mlp.down_proj", "model.layers.1.mlp.down_prox");
  llama.replace("model.safetensors", "model.layers.0.mlp.down_proj", "model.layers.0.mlp.down_prox");
  expect_parts(
      message_of<DataError>([&] { folder_kind(llama.folder.path()); }),
      {"one of ", "llama, mistral", "scalar_of_scores, ffn_size; the folder has no intermediate_size; ",
       "it has no tensors model.layers.#.mlp.down_prox; ",
       "the folder has no tensors model.layers.#.mlp.down_proj)"});
}

TEST(Pretrained, NamesTheKindOfLayersOfAModelTypeThatHasNoSoftmaxAttention) {
  for (const auto& [model_type, kind] :
       {std::pair("mamba2", "state-space layers"),
        {"rwkv", "linear attention or other recurrences"},
        {"gemma3n_text", "several streams of hidden states (AltUp) and low-rank residuals (LAuReL)"},
        {"blt", "layers of bytes and of patches of bytes"},
        {"cpmant", "scores biased by segments, and learned prompts"},
        {"xlm", "languages of tokens, and texts continued by masks"},
        {"jetmoe", "attention whose heads are experts"},
        {"longcat_flash", "pairs of layers beside experts, some of which return their input"}}) {
    const FolderCopy other("llama");
    other.replace("config.json", "\"model_type\": \"llama\"", concat("\"model_type\": \"", model_type, "\""));
    expect_parts(
        message_of<DataError>([&] { folder_kind(other.folder.path()); }),
        {concat("(", model_type, " has ", kind, ", which are not supported), found \"", model_type, "\"")});
  }
}

TEST(Pretrained, TheFirstNamesOfNomicBertsFieldsAreRead) {
  const FolderCopy first("nomic_bert_base");
  for (const auto& [name, older] : {std::pair("hidden_size", "n_embd"),
                                    {"num_hidden_layers", "n_layer"},
                                    {"num_attention_heads", "n_head"},
                                    {"intermediate_size", "n_inner"},
                                    {"layer_norm_eps", "layer_norm_epsilon"},
                                    {"head_dim", "n_positions"},
                                    {"max_position_embeddings", "max_trained_positions"}})
    first.replace("config.json", concat("\"", name, "\""), concat("\"", older, "\""));
  first.replace("config.json",
                "\"rope_parameters\": {\n    \"rope_theta\": 1000.0,\n    \"rope_type\": \"default\"\n  }",
                "\"rotary_emb_base\": 1000");
  first.add_field(
      R"("activation_function": "swiglu", "rotary_scaling_factor": null, "use_rms_norm": null, "prenorm": false)");
  nn::ForwardContext context;
  const auto hidden = [&](const std::filesystem::path& folder) {
    return (*load_text_encoder(folder))(first.one.texts, context, first.one.expected["types"]).value();
  };
  EXPECT_TRUE(std::ranges::equal(hidden(first.folder.path()).values(), hidden(first.one.folder).values()));
  first.replace("config.json", "\"prenorm\": false", "\"prenorm\": true");
  expect_parts(first.encoder_error(), {"prenorm", "false", "true"});
}

TEST(Pretrained, RejectsClassesWithAnotherComputation) {
  const FolderCopy classifier("gpt2");
  classifier.replace("config.json", "GPT2LMHeadModel", "GPT2ForSequenceClassification");
  expect_parts(classifier.language_error(), {"config.json: architectures: expected GPT2LMHeadModel or",
                                             "found [\"GPT2ForSequenceClassification\"]"});
  const FolderCopy gemma("llama");
  gemma.replace("config.json", "LlamaForCausalLM", "GemmaForCausalLM");
  expect_parts(gemma.language_error(),
               {"config.json: architectures: expected LlamaForCausalLM or", "found [\"GemmaForCausalLM\"]"});
}

TEST(Pretrained, WarnsAboutCodeInTheFolder) {
  const FolderCopy own("gpt2");
  own.add_field(R"("auto_map": {"AutoModelForCausalLM": "modeling_wings.WingsForCausalLM"})");
  std::string warning;
  set_log_sink([&](LogLevel level, const std::string& message) {
    if (level == LogLevel::warning) warning += message;
  });
  load_language_model(own.folder.path());
  set_log_sink({});
  expect_parts(warning, {"config.json", "auto_map", "not run", "gpt2"});
}

TEST(Pretrained, RejectsInvalidValuesByName) {
  const FolderCopy heads("gpt2");
  heads.replace("config.json", "\"n_head\": 2", "\"n_head\": 3");
  expect_parts(heads.language_error(), {"config.json: n_head (heads): expected", "found 3"});
  const FolderCopy none("gpt2");
  none.replace("config.json", "\"n_layer\": 2", "\"n_layer\": 0");
  expect_parts(none.language_error(), {"layers", "at least 1, found 0"});
  const FolderCopy many("gpt2");
  many.replace("config.json", "\"n_layer\": 2", "\"n_layer\": 1000000");
  expect_parts(many.language_error(), {"layers", "at most 1000, found 1000000"});
  const FolderCopy wide("llama");
  wide.replace("config.json", "\"head_dim\": 4", "\"head_dim\": 268435456");
  expect_parts(wide.language_error(), {"d_k of all heads", "at most 268435456"});
  const FolderCopy text("gpt2");
  text.replace("config.json", "\"n_layer\": 2", "\"n_layer\": \"two\"");
  expect_parts(text.language_error(), {"config.json: n_layer: expected an integer, found \"two\""});
  const FolderCopy overflowing("gpt2");  // 4 * n_embd, the default of n_inner, would not fit into 64 bits
  overflowing.replace("config.json", "\"n_embd\": 8", "\"n_embd\": 4611686018427387904");
  expect_parts(overflowing.language_error(),
               {"config.json: n_embd: expected an integer of at most 2147483647, found 4611686018427387904"});
  const FolderCopy json("gpt2");
  json.folder.write("config.json", "{\"model_type\": ");
  expect_parts(json.language_error(), {"config.json", "expected JSON"});
  const FolderCopy huge("gpt2");
  huge.add_field("\"wings\": 1e999");
  expect_parts(huge.language_error(), {"config.json", "expected JSON", "1e999"});
  const FolderCopy deep("gpt2");
  const size_t depth = 1'000'000;
  deep.add_field("\"wings\": " + std::string(depth, '[') + std::string(depth, ']'));
  expect_parts(deep.language_error(), {"config.json", "nested at most 64 deep"});
}

// The fields that transformers 4 wrote for every model, at the values that change nothing.
TEST(Pretrained, NeutralFieldsOfOtherModelsAreNotRefused) {
  const std::string fields =
      R"("return_dict": true, "torchscript": false, "use_bfloat16": false, "pruned_heads": {}, "chunk_size_feed_forward": 0,
         "is_decoder": false, "cross_attention_hidden_size": null, "add_cross_attention": false, "is_encoder_decoder": false,
         "tie_encoder_decoder": false, "max_length": 20, "diversity_penalty": 0.0, "typical_p": 1.0, "num_beam_groups": 1)";
  for (const char* name : {"gpt2", "llama", "mistral"}) {
    const FolderCopy copy(name);
    copy.add_field(fields);
    EXPECT_NO_THROW(load_language_model(copy.folder.path())) << name;
  }
  for (const char* name : {"bert_masked", "roberta_masked", "distilbert_masked", "t5_encoder"}) {
    const FolderCopy copy(name);
    copy.add_field(fields);
    EXPECT_NO_THROW(load_text_encoder(copy.folder.path())) << name;
  }
  for (const char* name : {"vit_images", "deit_images"}) {
    const Scratch folder;
    std::filesystem::copy(FamilyCase("gpt2").folder.parent_path() / name, folder.path(),
                          std::filesystem::copy_options::recursive);
    std::string config = read_file(folder / "config.json");
    folder.write("config.json",
                 config.insert(config.find('{') + 1, fields + ", \"tie_word_embeddings\": true,"));
    EXPECT_NO_THROW(load_image_encoder(folder.path())) << name;
  }
  const FolderCopy crossed("llama");
  crossed.add_field("\"add_cross_attention\": true");
  expect_parts(crossed.language_error(), {"add_cross_attention", "expected false, found true"});
}

TEST(Pretrained, EndsOutsideTheVocabularyEndNothing) {
  const FolderCopy copy("gpt2");
  copy.replace("config.json", "\"eos_token_id\": 2", "\"eos_token_id\": 50256");
  copy.replace("config.json", "\"bos_token_id\": 1", "\"bos_token_id\": -1");
  EXPECT_TRUE(load_language_model(copy.folder.path())->config().eos_ids.empty());
  EXPECT_TRUE(load_language_model(copy.folder.path())->config().bos_ids.empty());
  copy.folder.write("generation_config.json", R"({"eos_token_id": [2, 99]})");
  EXPECT_EQ(load_language_model(copy.folder.path())->config().eos_ids, std::vector<int32_t>{2});
}

// Variants found in published folders of these families, with equal results.
TEST(Pretrained, ReadsAlternativeNames) {
  nn::ForwardContext context;
  const auto expect_hidden = [&](const FolderCopy& copy) {
    expect_close(
        flat((*load_text_encoder(copy.folder.path()))(copy.one.texts, context, copy.one.expected["types"])
                 .value()),
        copy.one.expected["hidden"], "hidden", 5e-6);
  };
  const FolderCopy bert("bert_pretraining");
  bert.rewrite([](auto& tensors) {
    for (auto& one : tensors) {
      const auto respell = [&](const std::string& from, const std::string& to) {
        if (one.name.ends_with(from)) one.name.replace(one.name.size() - from.size(), from.size(), to);
      };
      respell("LayerNorm.weight", "LayerNorm.gamma");
      respell("LayerNorm.bias", "LayerNorm.beta");
    }
    tensors.push_back({"bert.embeddings.position_ids", Tensor::zeros({1, 20}, DType::i32)});
  });
  expect_hidden(bert);

  const FolderCopy gpt2("gpt2");
  gpt2.rewrite([](auto& tensors) {
    for (auto& one : tensors) one.name = one.name.substr(std::string("transformer.").size());
  });
  expect_close(flat((*load_language_model(gpt2.folder.path()))(gpt2.one.texts, context).value()),
               gpt2.one.expected["hidden"], "hidden", 5e-6);

  const FolderCopy gte("gte_masked");
  gte.rewrite([](auto& tensors) {
    for (auto& one : tensors) {
      if (one.name.starts_with("gte.")) one.name = "new." + one.name.substr(4);
    }
  });
  expect_hidden(gte);

  const FolderCopy old("llama");
  old.replace("config.json", "\"rope_parameters\"",
              "\"rope_scaling\": null, \"rope_theta\": 12345.0, \"rope_parameters\"");
  EXPECT_EQ(load_language_model(old.folder.path())->config().decoder.first().attention.positions.rotary_base,
            10000.0);
}

TEST(Pretrained, GenerationConfigSetsTheEndTokens) {
  const FolderCopy copy("llama");
  EXPECT_EQ(load_language_model(copy.folder.path())->config().eos_ids, std::vector<int32_t>{2});
  copy.folder.write("generation_config.json", R"({"eos_token_id": [2, 7], "temperature": 0.6})");
  EXPECT_EQ(load_language_model(copy.folder.path())->config().eos_ids, (std::vector<int32_t>{2, 7}));
}

TEST(Pretrained, RejectsLongTextsAndInvalidIds) {
  const FamilyCase one("gpt2");
  const auto model = load_language_model(one.folder);
  nn::ForwardContext context;
  const auto text = [](int64_t length, int32_t id) {
    return Ragged{Tensor::from(std::vector<int32_t>(static_cast<size_t>(length), id), {length}),
                  Offsets::uniform(1, length)};
  };
  EXPECT_EQ((*model)(text(20, 5), context).value().rows(), 20);
  expect_parts(message_of<UsageError>([&] { (*model)(text(21, 5), context); }), {"21 tokens", "20"});
  EXPECT_THROW((*model)(text(3, 23), context), DataError);
  EXPECT_THROW(model->start(text(21, 5)), UsageError);
  nn::DecoderState state = model->start(text(20, 5));
  EXPECT_THROW(model->step(Tensor::from(std::vector<int32_t>{5}, {1}), state), UsageError);
  const FamilyCase bert("bert_base");
  const auto encoder = load_text_encoder(bert.folder);
  expect_parts(message_of<UsageError>([&] { (*encoder)(text(21, 5), context); }), {"21 tokens", "20"});
}

TEST(Pretrained, RejectsModelsThatTheFamilyCannotExpress) {
  const Scratch folder;
  const auto llama = load_language_model(FamilyCase("llama").folder);
  const auto refusal = [&](const char* family) {
    return message_of<UsageError>([&] { save_language_model(folder.path(), *llama, family); });
  };
  expect_parts(refusal("gpt2"), {"gpt2: embedding.positions.kind: expected learned", "found none"});
  expect_parts(refusal("phi1"), {"llama, mistral", "\"phi1\""});
  EXPECT_FALSE(std::filesystem::exists(folder / "config.json"));
}

// Settings of the blocks for which a family has no field.
TEST(Pretrained, RejectsSettingsWithoutAField) {
  const Scratch folder;
  const auto language = [&](const char* family, const char* case_name, const auto& change) {
    LanguageModelConfig config = load_language_model(FamilyCase(case_name).folder)->config();
    config.decoder.each(change);
    const LanguageModel model(config);
    nn::initialise(model, 1);
    return message_of<UsageError>([&] { save_language_model(folder.path(), model, family); });
  };
  const auto window = [](nn::LayerOptions& layer) { layer.attention.window = 3; };
  const auto softcap = [](nn::LayerOptions& layer) { layer.attention.softcap = 30; };
  const auto scale = [](nn::LayerOptions& layer) { layer.attention.scale = 0.5f; };
  const auto biases = [](nn::LayerOptions& layer) { layer.attention.bias = {}; };
  for (const auto& [family, name] : {std::pair("gpt2", "gpt2"), std::pair("llama", "llama")}) {
    expect_parts(language(family, name, window),
                 {family, "layers.0.attention.window: expected 0", "found 3"});
    expect_parts(language(family, name, softcap), {family, "attention.softcap: expected 0", "found 30"});
    expect_parts(language(family, name, scale),
                 {family, "attention.scale: expected 1/sqrt(d_k)", "found 0.5"});
  }
  expect_parts(language("mistral", "llama", softcap), {"mistral", "attention.softcap"});
  expect_parts(language("mistral", "llama", biases), {"mistral", "attention.bias.query: expected false"});
  const auto encoder = [&](const char* family, const char* case_name, const auto& change) {
    TextEncoderConfig config = load_text_encoder(FamilyCase(case_name).folder)->config();
    change(config);
    const TextEncoder model(config);
    nn::initialise(model, 1);
    return message_of<UsageError>([&] { save_text_encoder(folder.path(), model, family); });
  };
  expect_parts(encoder("bert", "bert_base",
                       [](auto& config) {
                         config.encoder.each([](nn::LayerOptions& layer) { layer.attention.scale = 0.5f; });
                       }),
               {"bert", "attention.scale", "found 0.5"});
  expect_parts(encoder("bert", "bert_base", [](auto& config) { config.embedding.positions.first_row = 2; }),
               {"bert", "positions.first_row: expected 0", "found 2"});
  expect_parts(
      encoder("roberta", "roberta_masked", [](auto& config) { config.embedding.positions.pad_id = -1; }),
      {"roberta", "pad_token_id", "found -1"});
  LanguageModelConfig local = load_language_model(FamilyCase("mistral").folder)->config();
  local.decoder.layers.back().attention.window = 0;
  const LanguageModel model(local);
  nn::initialise(model, 1);
  expect_parts(message_of<UsageError>([&] { save_language_model(folder.path(), model, "mistral"); }),
               {"mistral: decoder.layers.1.attention.window: expected 4", "found 0"});
  EXPECT_FALSE(std::filesystem::exists(folder / "config.json"));
}

// transformers' defaults: a window of 4096 for a missing field, none for null.
TEST(Pretrained, MistralsWindowMayBeNullOrMissing) {
  const auto window = [](const std::string& field) {
    const FolderCopy copy("mistral");
    copy.replace("config.json", "\"sliding_window\": 4,", field.empty() ? "" : field + ",");
    const auto model = load_language_model(copy.folder.path());
    const Scratch saved;
    save_language_model(saved.path(), *model, "mistral");
    const auto again = load_language_model(saved.path());
    EXPECT_EQ(again->config().decoder.first().attention.window,
              model->config().decoder.first().attention.window);
    return model->config().decoder.first().attention.window;
  };
  EXPECT_EQ(window(""), 4096);
  EXPECT_EQ(window("\"sliding_window\": null"), 0);
  EXPECT_EQ(window("\"sliding_window\": 5"), 5);
  const FolderCopy bad("mistral");
  bad.replace("config.json", "\"sliding_window\": 4", "\"sliding_window\": 0");
  expect_parts(bad.language_error(), {"sliding_window: expected null, or at least 1", "found 0"});
}

}  // namespace
