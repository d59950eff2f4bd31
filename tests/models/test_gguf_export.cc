// Folders as GGUF files.

#include "qkv/models/gguf/gguf_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "qkv/io/safetensors.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/tensor/quantize_blocks.h"
#include "tests/models/family_case.h"
#include "tests/support/scratch.h"

namespace qkv::models {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::message_of;

// A byte-level tokenizer of the letters a to v and an end token, for the golden models' 23 tokens.
std::string letters_json(const std::string& pre_tokenizer =
                             R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})") {
  std::string vocabulary;
  for (int i = 0; i < 22; ++i)
    vocabulary += concat(i > 0 ? ", " : "", '"', static_cast<char>('a' + i), "\": ", i);
  return concat(R"({"added_tokens": [{"id": 22, "content": "<end>", "special": true}], "normalizer": null, )",
                R"("pre_tokenizer": )", pre_tokenizer, R"(, "post_processor": null, "decoder": null, )",
                R"("model": {"type": "BPE", "vocab": {)", vocabulary, R"(, "ab": 22}, "merges": []}})");
}

// A golden folder with a tokenizer.
fs::path folder_of(const std::string& name, const testing::Scratch& scratch, std::string tokenizer = {}) {
  const fs::path golden = fs::path(QKV_TEST_DATA) / "models/golden" / name, folder = scratch / "model";
  fs::create_directories(folder);
  for (const char* const file : {"config.json", "model.safetensors"}) fs::copy(golden / file, folder / file);
  if (tokenizer.empty()) {
    tokenizer = letters_json();
    tokenizer.replace(tokenizer.find(", \"ab\": 22"), 10, "");
  }
  scratch.write("model/tokenizer.json", tokenizer);
  return folder;
}

class GgufExportOf : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufExportOf, HasTheBitsOfItsFolder) {
  const testing::FamilyCase of(GetParam());
  const testing::Scratch scratch;
  const fs::path folder = folder_of(GetParam(), scratch), file = scratch / "m.gguf";
  const GgufReport report = export_gguf(folder, file, {.encoding = DType::f32});
  EXPECT_EQ(report.bytes, static_cast<int64_t>(fs::file_size(file)));
  const auto logits = [&](const fs::path& path) {
    nn::ForwardContext context;
    const auto model = load_language_model(path);
    return model->logits()((*model)(of.texts, context)).value();
  };
  const Tensor expected = logits(folder), found = logits(file);
  EXPECT_TRUE(std::ranges::equal(found.values(), expected.values()));
  EXPECT_EQ(load_tokenizer(file).encode("badge<end>").ids, load_tokenizer(folder).encode("badge<end>").ids);
}

INSTANTIATE_TEST_SUITE_P(Gguf, GgufExportOf,
                         ::testing::Values("llama", "llama_grouped", "llama+f16", "llama_rope_linear",
                                           "llama_rope_yarn", "qwen2", "qwen3"));

// A model of the family llama with rows of 256 and 288 numbers, the latter no multiple of 256.
fs::path wide_model(const testing::Scratch& scratch) {
  const fs::path folder = scratch / "wide";
  LanguageModelConfig config =
      load_language_model(fs::path(QKV_TEST_DATA) / "models/golden/llama_grouped")->config();
  for (nn::LayerOptions& layer : config.decoder.layers) {
    layer.d_model = 256;
    layer.heads = 4;
    layer.key_heads = 2;
    layer.d_k = layer.d_v = 64;
    layer.d_ff = 288;
  }
  config.embedding.d_model = 256;
  const LanguageModel model(config);
  nn::initialise(model, 1);
  save_language_model(folder, model, "llama");
  std::string tokenizer = letters_json();
  tokenizer.replace(tokenizer.find(", \"ab\": 22"), 10, "");
  scratch.write("wide/tokenizer.json", tokenizer);
  return folder;
}

std::string type_of(const io::GgufFile& file, const std::string& name) {
  return std::string(file.entry(name).type);
}

TEST(GgufExport, EncodesMatricesAsLlamaCppDoes) {
  const testing::Scratch scratch;
  const fs::path folder = wide_model(scratch);
  const io::SafetensorsFile weights(folder / "model.safetensors");
  for (const DType dtype : {DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q5_1, DType::iq4_nl,
                            DType::q4_k, DType::q5_k, DType::q6_k}) {
    SCOPED_TRACE(name_of(dtype));
    const fs::path path = scratch / "m.gguf";
    const GgufReport report = export_gguf(folder, path, {.encoding = dtype});
    const io::GgufFile file(path);
    EXPECT_EQ(file.entry("blk.0.ffn_up.weight").dtype, dtype);
    EXPECT_EQ(type_of(file, "blk.0.attn_norm.weight"), "F32");
    const bool coarse = layout_of(dtype).block > 1 && dtype != DType::q8_0;
    EXPECT_EQ(type_of(file, "token_embd.weight"), coarse ? "Q6_K" : type_of(file, "blk.0.ffn_up.weight"));
    EXPECT_EQ(file.entry("blk.1.ffn_down.weight").dtype, fitting_encoding(dtype, 288));
    EXPECT_EQ(report.fallbacks.size(), layout_of(dtype).block == 256 ? 1u : 0u);
    EXPECT_EQ(file.integer("general.quantization_version").has_value(), layout_of(dtype).block > 1);
    const Tensor up = weights.tensor("model.layers.0.mlp.up_proj.weight");
    std::vector<std::byte> expected(bytes_of(dtype, up.numel()));
    quantize_blocks(dtype, up.values().data(), up.numel(), expected.data());
    EXPECT_TRUE(std::ranges::equal(file.entry("blk.0.ffn_up.weight").bytes, expected));
    load_language_model(path);
  }
  EXPECT_EQ(fitting_encoding(DType::q4_k, 288), DType::q5_0);
  EXPECT_EQ(fitting_encoding(DType::q5_k, 288), DType::q5_1);
  EXPECT_EQ(fitting_encoding(DType::q6_k, 288), DType::q8_0);
  EXPECT_EQ(fitting_encoding(DType::q4_k, 100), DType::f16);
  EXPECT_EQ(fitting_encoding(DType::q8_0, 100), DType::f16);
}

TEST(GgufExport, FromAGgufFileHasTheBytesOfTheFolders) {
  const testing::Scratch scratch;
  const fs::path folder = wide_model(scratch);
  export_gguf(folder, scratch / "f32.gguf", {.encoding = DType::f32});
  export_gguf(folder, scratch / "direct.gguf", {.encoding = DType::q4_k});
  export_gguf(scratch / "f32.gguf", scratch / "again.gguf", {.encoding = DType::q4_k});
  const io::GgufFile direct(scratch / "direct.gguf"), again(scratch / "again.gguf");
  ASSERT_EQ(again.names(), direct.names());
  for (const std::string& name : direct.names())
    EXPECT_TRUE(std::ranges::equal(again.entry(name).bytes, direct.entry(name).bytes)) << name;
  for (const std::string& key : direct.keys())
    EXPECT_TRUE(std::ranges::equal(again.stored(key), direct.stored(key))) << key;
  // Blocks that stay as they are.
  export_gguf(scratch / "again.gguf", scratch / "third.gguf", {.encoding = DType::q4_k});
  EXPECT_EQ(read_file(scratch / "third.gguf"), read_file(scratch / "again.gguf"));
}

TEST(GgufExport, KeepsTokenizersSpecialTokensAndTemplates) {
  for (const char* const name : {"SmolLM2-135M", "TinyLlama-1.1B-Chat-v1.0"}) {
    SCOPED_TRACE(name);
    const testing::Scratch scratch;
    const fs::path folder = fs::path(QKV_TEST_DATA) / "apps/golden/hub" / name, file = scratch / "m.gguf";
    export_gguf(folder, file, {.chat_templates = {{"default", "{{ messages }}"}, {"other", "{{ 1 }}"}}});
    const text::Tokenizer theirs = load_tokenizer(folder), ours = load_tokenizer(file);
    for (const std::string text : {"the other day, 1234 of them  and\n\nthen", "<|im_start|>user</s>",
                                   "Gr\xC3\xBC\xC3\x9F"
                                   "e"}) {
      EXPECT_EQ(ours.encode(text).ids, theirs.encode(text).ids) << text;
      EXPECT_EQ(ours.decode(ours.encode(text).ids), theirs.decode(theirs.encode(text).ids)) << text;
    }
    const io::GgufFile read(file);
    EXPECT_EQ(read.text("general.name"), name);
    EXPECT_EQ(read.text("tokenizer.chat_template"), "{{ messages }}");
    EXPECT_EQ(read.text("tokenizer.chat_template.other"), "{{ 1 }}");
    EXPECT_THAT(read.texts("tokenizer.chat_templates"), ::testing::ElementsAre("other"));
  }
}

std::string export_complaint(const std::string& golden, const std::string& tokenizer = {},
                             const std::string& from = {}, const std::string& to = {}) {
  const testing::Scratch scratch;
  const fs::path folder = folder_of(golden, scratch, tokenizer);
  std::string config = read_file(folder / "config.json");
  if (!from.empty()) config.replace(config.find(from), from.size(), to);
  scratch.write("model/config.json", config);
  std::string message;
  try {
    export_gguf(folder, scratch / "m.gguf", {});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_EQ(files_in(scratch.path()).size(), 1u) << "nothing remains but the folder";
  return message;
}

TEST(GgufExport, NamesWhatHasNoCounterpart) {
  for (const std::string family : {"bloom", "gemma", "gpt2"}) {
    EXPECT_THAT(export_complaint(family),
                HasSubstr(concat(
                    "model_type: expected one that is written as a GGUF file (llama, qwen2, qwen3), found ",
                    family)));
  }
  EXPECT_THAT(export_complaint("llama_biased"), HasSubstr("mlp_bias: expected false"));
  EXPECT_THAT(export_complaint("qwen3_windows"),
              HasSubstr("layer_types: expected full_attention in all layers"));
  EXPECT_THAT(export_complaint("llama_grouped", "", "\"silu\"", "\"gelu\""),
              HasSubstr("hidden_act: expected \"silu\""));
  EXPECT_THAT(export_complaint("llama_grouped", letters_json()), HasSubstr("expected another id than 22"));
  const auto with = [](const std::string& pre_tokenizer) {
    std::string json = letters_json(pre_tokenizer);
    json.replace(json.find(", \"ab\": 22"), 10, "");
    return export_complaint("llama_grouped", json);
  };
  EXPECT_THAT(with(R"({"type": "ByteLevel", "add_prefix_space": true})"),
              HasSubstr("pre_tokenizer.add_prefix_space: expected false"));
  EXPECT_THAT(with(R"({"type": "Whitespace"})"), HasSubstr("pre_tokenizer: expected ByteLevel"));
  EXPECT_THAT(
      with(
          R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "x+"}, "behavior": )"
          R"("Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})"),
      HasSubstr("expected a way to divide texts that GGUF files have a name for"));
  std::string unigram = letters_json();
  unigram.replace(unigram.find("BPE"), 3, "Unigram");
  EXPECT_THAT(export_complaint("llama_grouped", unigram), HasSubstr("model.type: expected BPE"));
}

TEST(GgufExport, NamesTheTensorWhoseNumbersItCannotHold) {
  const testing::Scratch scratch;
  const fs::path folder = folder_of("llama_grouped", scratch);
  const auto model = load_language_model(folder, {.trainable = true});
  model->visit([](const std::string& name, const nn::Parameter& parameter) {
    if (name.find("layers.1.fc1") == name.npos) return;
    Tensor values = parameter.variable.value().clone();
    values.values()[3] = std::numeric_limits<float>::quiet_NaN();
    parameter.set_value({values});
  });
  save_language_model(folder, *model, "llama");
  EXPECT_THAT(message_of<NumericError>([&] { export_gguf(folder, scratch / "m.gguf", {}); }),
              HasSubstr("blk.1.ffn_up.weight: expected finite numbers up to 65504 for f16, found nan"));
  EXPECT_FALSE(fs::exists(scratch / "m.gguf"));
  EXPECT_THAT(message_of<UsageError>([&] { export_gguf(folder, scratch / "m.bin", {}); }),
              HasSubstr("expected a file whose name ends in .gguf"));
}

}  // namespace
}  // namespace qkv::models
