// Folders as GGUF files.

#include "qkv/models/gguf/gguf_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "qkv/io/safetensors.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/ops/quantize.h"
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

// config.json with one part replaced.
void change_config(const fs::path& folder, const std::string& from, const std::string& to) {
  std::string config = read_file(folder / "config.json");
  const size_t at = config.find(from);
  if (at == std::string::npos) throw std::runtime_error("no " + from);
  config.replace(at, from.size(), to);
  write_file_atomically(folder / "config.json", config);
}

// A golden folder with a tokenizer.
fs::path folder_of(const std::string& name, const testing::Scratch& scratch, std::string tokenizer = {}) {
  const fs::path golden = fs::path(QKV_TEST_DATA) / "models/golden" / name, folder = scratch / "model";
  fs::create_directories(folder);
  for (const char* const file : {"config.json", "model.safetensors"}) fs::copy(golden / file, folder / file);
  // Gemma's GGUF files have no other scale of the scores than that of a head's width.
  const std::string scalar = "\"query_pre_attn_scalar\": ";
  if (read_file(folder / "config.json").find(scalar) != std::string::npos)
    change_config(folder, scalar + "24", scalar + "6");
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
                                           "llama_rope_yarn", "qwen2", "qwen3", "gemma", "gemma2",
                                           "gemma3_text", "phi3", "phi3_longrope", "gpt2"));

// WordPiece of 23 pieces, as BERT has it.
std::string words_json() {
  constexpr std::array kWords{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "fox",
                              "jump",  "##s",   "##ed",  "over",  ".",      ",",   "a",     "b",
                              "##a",   "##b",   "lazy",  "dog",   "!",      "1",   "##1"};
  std::string vocabulary, added;
  for (size_t id = 0; id < kWords.size(); ++id) {
    vocabulary += concat(id > 0 ? ", " : "", '"', kWords[id], "\": ", id);
    if (id < 5)
      added += concat(id > 0 ? ", " : "", R"({"id": )", id, R"(, "content": ")", kWords[id],
                      R"(", "special": true, "normalized": false})");
  }
  return concat(
      R"({"added_tokens": [)", added, R"(], "normalizer": {"type": "BertNormalizer", "clean_text": true, )",
      R"("handle_chinese_chars": true, "strip_accents": null, "lowercase": true}, "pre_tokenizer": )",
      R"({"type": "BertPreTokenizer"}, "post_processor": {"type": "TemplateProcessing", "single": )",
      R"([{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, )",
      R"({"SpecialToken": {"id": "[SEP]", "type_id": 0}}], "pair": [], "special_tokens": )",
      R"({"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [3], )",
      R"("tokens": ["[SEP]"]}}}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}, )",
      R"("model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", )",
      R"("max_input_chars_per_word": 100, "vocab": {)", vocabulary, "}}}");
}

TEST(GgufExport, OfAnEncoderHasTheBitsOfItsFolder) {
  for (const char* const name : {"bert_base", "bert_pretraining", "nomic_bert_base"}) {
    SCOPED_TRACE(name);
    const testing::FamilyCase of(name);
    const testing::Scratch scratch;
    const fs::path folder = folder_of(name, scratch, words_json()), file = scratch / "m.gguf";
    export_gguf(folder, file, {.encoding = DType::f32, .pooling = "cls"});
    const auto hidden = [&](const fs::path& path) {
      nn::ForwardContext context;
      return (*load_text_encoder(path))(of.texts, context, of.expected["types"]).value();
    };
    const Tensor expected = hidden(folder), found = hidden(file);
    EXPECT_TRUE(std::ranges::equal(found.values(), expected.values()));
    for (const char* const text : {"The quick FOX, jumped!", "[MASK] dogs aab 1b1 \u00e9x"})
      EXPECT_EQ(load_tokenizer(file).encode(text).ids, load_tokenizer(folder).encode(text).ids);
    EXPECT_EQ(GgufModel(file).text_file("1_Pooling/config.json"), R"({"pooling_mode":"cls"})");
  }
  // llama.cpp's enum llama_pooling_type
  EXPECT_EQ(GgufModel::pooling_type("mean"), 1);
  EXPECT_EQ(GgufModel::pooling_type("cls"), 2);
  EXPECT_EQ(GgufModel::pooling_type("lasttoken"), 3);
}

TEST(GgufExport, OfWordPieceRefusesOrKeepsWhatChangesIds) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string json = words_json();
    json.replace(json.find(from), from.size(), to);
    return json;
  };
  const testing::Scratch scratch;
  const fs::path file = scratch / "m.gguf";
  const auto exported = [&](const std::string& json) {
    const fs::path folder = folder_of("bert_base", scratch, json);
    export_gguf(folder, file, {.encoding = DType::f32, .pooling = "cls"});
    return folder;
  };
  // An added token that is not special, and a piece of the vocabulary as well.
  const fs::path folder = exported(
      with(R"("added_tokens": [)", concat(R"("added_tokens": [{"id": 18, "content": )",
                                          R"("lazy", "special": false, )", R"("normalized": false}, )")));
  for (const char* const text : {"a lazy b", "alazyb"})
    EXPECT_EQ(load_tokenizer(file).encode(text).ids, load_tokenizer(folder).encode(text).ids) << text;
  fs::remove_all(folder);
  testing::expect_parts(
      message_of<DataError>(
          [&] { exported(with(R"("max_input_chars_per_word": 100)", R"("max_input_chars_per_word": 9)")); }),
      {"max_input_chars_per_word", "expected 100", "found 9"});
  fs::remove_all(folder);
  const std::string template_json = words_json();
  const size_t begin = template_json.find(R"({"type": "TemplateProcessing")"),
               end = template_json.find(R"(, "decoder")");
  std::string damaged = template_json;
  damaged.replace(begin, end - begin, R"({"type": "BertProcessing", "sep": ["[SEP]"], "cls": ["[CLS]", 2]})");
  testing::expect_parts(message_of<DataError>([&] { exported(damaged); }), {"sep", "a token and its id"});
}

// A model of a family with rows of 256 and 288 numbers, the latter no multiple of 256.
fs::path wide_model(const testing::Scratch& scratch, const std::string& family = "llama",
                    const std::string& golden = "llama_grouped", int64_t key_heads = 2) {
  const fs::path folder = scratch / "wide";
  LanguageModelConfig config =
      load_language_model(fs::path(QKV_TEST_DATA) / "models/golden" / golden)->config();
  for (nn::LayerOptions& layer : config.decoder.layers) {
    layer.d_model = 256;
    layer.heads = 4;
    layer.key_heads = key_heads;
    layer.d_k = layer.d_v = 64;
    layer.d_ff = 288;
  }
  config.embedding.d_model = 256;
  const LanguageModel model(config);
  nn::initialise(model, 1);
  save_language_model(folder, model, family);
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

// Queries, keys and values, and phi3's gates and inputs, are rows of one tensor.
TEST(GgufExport, FusedRowsInBlocksAreReadWhereTheyLie) {
  for (const auto& [family, key_heads] : {std::pair("phi3", 2), std::pair("gpt2", 4)}) {
    for (const DType dtype : {DType::q8_0, DType::q4_k}) {
      SCOPED_TRACE(concat(family, " ", name_of(dtype)));
      const testing::Scratch scratch;
      export_gguf(wide_model(scratch, family, family, key_heads), scratch / "blocks.gguf",
                  {.encoding = dtype});
      export_gguf(scratch / "blocks.gguf", scratch / "f32.gguf", {.encoding = DType::f32});
      const auto model = load_language_model(scratch / "blocks.gguf"),
                 wide = load_language_model(scratch / "f32.gguf");
      std::map<std::string, Tensor> expected;
      wide->visit([&](const std::string& name, const nn::Parameter& parameter) {
        if (parameter.defined()) expected[name] = parameter.weight().value().values;
      });
      int rows_in_blocks = 0;
      model->visit([&](const std::string& name, const nn::Parameter& parameter) {
        if (!parameter.defined()) return;
        const QuantizedTensor found = parameter.weight().value();
        const Tensor widened = dequantize(found), whole = expected.at(name);
        EXPECT_TRUE(std::ranges::equal(widened.values(), whole.values())) << name;
        rows_in_blocks += name.find("layers.0.self_attn.") != name.npos && found.dtype() == dtype;
      });
      EXPECT_EQ(rows_in_blocks, 4) << "queries, keys, values and outputs";
    }
  }
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
  if (!from.empty()) change_config(folder, from, to);
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
  EXPECT_THAT(
      export_complaint("bloom"),
      HasSubstr("model_type: expected one that is written as a GGUF file (llama, qwen2, qwen3, gemma, "
                "gemma2, gemma3_text, phi3, gpt2, bert, nomic_bert), found bloom"));
  EXPECT_THAT(export_complaint("llama_biased"),
              HasSubstr("mlp_bias: expected a value that GGUF files have, found true"));
  EXPECT_THAT(export_complaint("qwen2_windows"),
              HasSubstr("layer_types: expected a value that GGUF files have"));
  EXPECT_THAT(export_complaint("llama_grouped", "", "\"silu\"", "\"gelu\""),
              HasSubstr("hidden_act: expected a value that GGUF files have, found \"gelu\""));
  EXPECT_THAT(export_complaint("gpt2_untied_relu"),
              HasSubstr("activation_function: expected a value that GGUF files have, found \"relu\""));
  EXPECT_THAT(export_complaint("gemma_untied_biased"), HasSubstr("tie_word_embeddings: expected true"));
  EXPECT_THAT(export_complaint("gemma2", "", "\"query_pre_attn_scalar\": 6", "\"query_pre_attn_scalar\": 7"),
              HasSubstr("query_pre_attn_scalar: expected a value that GGUF files have, found 7"));
  EXPECT_THAT(
      export_complaint("llama_rope_llama3"),
      HasSubstr("original_max_position_embeddings: expected 8192, the only one that GGUF files have"));
  EXPECT_THAT(export_complaint("bert_texts", words_json()),
              HasSubstr("architectures: expected a model without a classifier"));
  std::string cased = words_json();
  cased.replace(cased.find("\"lowercase\": true"), 17, "\"lowercase\": false");
  EXPECT_THAT(export_complaint("bert_base", cased),
              HasSubstr("normalizer.lowercase: expected true, as the vocabulary has no capital letters"));
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
  EXPECT_THAT(export_complaint("llama_grouped", unigram), HasSubstr("model.type: expected BPE or WordPiece"));
}

TEST(GgufExport, OfARefusedFolderLeavesTheFileThatWasThere) {
  const testing::Scratch scratch;
  const fs::path folder = folder_of("qwen2_windows", scratch);
  scratch.write("m.gguf", "before");
  EXPECT_THROW(export_gguf(folder, scratch / "m.gguf", {}), UsageError);
  EXPECT_EQ(read_file(scratch / "m.gguf"), "before");
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
