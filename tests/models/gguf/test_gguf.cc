// GGUF files beside the folders that they were made from (tests/golden/gguf_models.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "qkv/base/json.h"
#include "qkv/io/gguf_writer.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/hub/read_config.h"
#include "tests/models/family_case.h"
#include "tests/support/scratch.h"

namespace qkv::models {
namespace {

using testing::FamilyCase;
using ::testing::HasSubstr;
using testing::message_of;

std::filesystem::path gguf_file(const std::string& name) {
  return std::filesystem::path(QKV_TEST_DATA) / "models/golden_gguf" / (name + ".gguf");
}

class GgufOf : public ::testing::TestWithParam<const char*> {};

// The folder as llama.cpp reads the file: Gemma's converted files lack "query_pre_attn_scalar".
std::filesystem::path comparable(const std::filesystem::path& folder, const testing::Scratch& scratch) {
  const std::string scalar = "\"query_pre_attn_scalar\": ";
  std::string config = read_file(folder / "config.json");
  const size_t at = config.find(scalar);
  if (at == std::string::npos) return folder;
  config.replace(at, config.find(',', at) - at, scalar + "6");  // the width of a head
  scratch.write("config.json", config);
  scratch.write("model.safetensors", read_file(folder / "model.safetensors"));
  return scratch.path();
}

TEST_P(GgufOf, HasTheBitsOfItsFolder) {
  const FamilyCase of(GetParam());
  const testing::Scratch scratch;
  const std::filesystem::path folder = comparable(of.folder, scratch);
  const auto logits = [&](const std::filesystem::path& path) {
    nn::ForwardContext context;
    const auto model = load_language_model(path);
    return model->logits()((*model)(of.texts, context)).value();
  };
  const Tensor expected = logits(folder), found = logits(gguf_file(GetParam()));
  ASSERT_EQ(found.shape(), expected.shape());
  EXPECT_TRUE(std::ranges::equal(found.values(), expected.values()));
  EXPECT_EQ(folder_kind(gguf_file(GetParam())), FolderKind::language);
  EXPECT_EQ(read_language_model_config(gguf_file(GetParam())).eos_ids,
            read_language_model_config(of.folder).eos_ids);
}

INSTANTIATE_TEST_SUITE_P(Gguf, GgufOf,
                         ::testing::Values("llama_grouped", "qwen2", "qwen3", "gemma", "gemma2",
                                           "gemma3_text", "phi3", "phi3_longrope", "gpt2"));

TEST(Gguf, EncodersHaveTheBitsOfTheirFolders) {
  for (const char* const name : {"bert_base", "nomic_bert_base"}) {
    SCOPED_TRACE(name);
    const FamilyCase of(name);
    const auto hidden = [&](const std::filesystem::path& path) {
      nn::ForwardContext context;
      return (*load_text_encoder(path))(of.texts, context, of.expected["types"]).value();
    };
    const Tensor expected = hidden(of.folder), found = hidden(gguf_file(name));
    ASSERT_EQ(found.shape(), expected.shape());
    EXPECT_TRUE(std::ranges::equal(found.values(), expected.values()));
    EXPECT_EQ(folder_kind(gguf_file(name)), FolderKind::encoder);
    EXPECT_FALSE(read_text_encoder_config(gguf_file(name)).pooler) << "files have none";
  }
}

// As llama.cpp does it: converted files of BERT lack the id of the start token.
TEST(Gguf, WordsHaveTheSpecialTokensOfBertsFirstVocabulary) {
  std::vector<std::string> tokens(105, "");
  for (size_t id = 0; id < tokens.size(); ++id) tokens[id] = concat("[unused", id, "]");
  tokens[100] = "[UNK]";
  tokens[101] = "[CLS]";
  tokens[102] = "[SEP]";
  tokens[103] = "\xE2\x96\x81north";
  io::GgufMetadata metadata;
  metadata.text("general.architecture", "bert");
  metadata.text("tokenizer.ggml.model", "bert");
  metadata.texts("tokenizer.ggml.tokens", tokens);
  const std::filesystem::path path = "words.gguf";
  const GgufModel model(io::GgufFile(path, io::gguf_header(path, metadata, {})));
  EXPECT_THAT(model.tokenizer().encode("north south").ids, ::testing::ElementsAre(101, 103, 100, 102));
}

class GgufTokenizerOf : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufTokenizerOf, GivesTheIdsOfTheOriginal) {
  const text::Tokenizer tokenizer = load_tokenizer(gguf_file(GetParam()));
  std::ifstream lines(gguf_file(GetParam()).replace_extension(".jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const JsonValue one = parse_json(line, "case");
    std::vector<int32_t> ids;
    for (const JsonValue& id : one["ids"].items())
      ids.push_back(static_cast<int32_t>(id.integer(0, 1 << 20)));
    EXPECT_EQ(tokenizer.encode(one["text"].string()).ids, ids) << one["text"].string();
  }
  EXPECT_GT(count, 40);
}

INSTANTIATE_TEST_SUITE_P(Gguf, GgufTokenizerOf, ::testing::Values("pieces", "bytes", "bert_base"));

TEST(Gguf, NamesSpecialTokens) {
  const auto special = [](const char* name) { return load_tokenizer(gguf_file(name)).special_tokens(); };
  EXPECT_EQ(special("chat").bos, 1);
  EXPECT_EQ(special("chat").eos, 2);
  EXPECT_EQ(special("chat").unk, 0);
  EXPECT_EQ(special("chat").mask, std::nullopt);
  const text::SpecialTokens words = special("bert_base");
  EXPECT_EQ(words.cls, 2);
  EXPECT_EQ(words.sep, 3);
  EXPECT_EQ(words.pad, 0);
  EXPECT_EQ(words.mask, 4);
}

// Files name one end token; others are found by their texts.
TEST(Gguf, EndsTextsWhereMessagesEnd) {
  EXPECT_THAT(read_language_model_config(gguf_file("chat")).eos_ids, ::testing::ElementsAre(2, 4));
  EXPECT_THAT(load_generation_defaults(gguf_file("chat")).eos_ids, ::testing::ElementsAre(2, 4));
}

TEST(Gguf, HasTheSamplingThatTheFileRecommends) {
  const GenerationDefaults found = load_generation_defaults(gguf_file("chat"), LengthsInclude::prompt);
  EXPECT_EQ(found.sampling.temperature, 0.75);
  EXPECT_EQ(found.sampling.top_k, 7);
  EXPECT_EQ(found.sampling.top_p, 1);
  EXPECT_EQ(found.repetition_penalty, 1.25F);
  EXPECT_EQ(load_generation_defaults(gguf_file("qwen2"), LengthsInclude::prompt).sampling.temperature, 1);
}

// The file, with one text replaced by another of the same length.
std::string complaint(const std::string& from, const std::string& to) {
  const testing::Scratch folder;
  std::string bytes = read_file(gguf_file("llama_grouped"));
  const size_t at = bytes.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  bytes.replace(at, from.size(), to);
  folder.write("m.gguf", bytes);
  return message_of<DataError>([&] { load_language_model(folder.path() / "m.gguf"); });
}

TEST(Gguf, NamesWhatIsMissingOrUnknown) {
  EXPECT_THAT(complaint("llama", "mamba"),
              HasSubstr("general.architecture: expected one of llama, qwen2, qwen3, gemma, gemma2, gemma3, "
                        "phi3, gpt2, bert, nomic-bert, found \"mamba\""));
  EXPECT_THAT(complaint("llama.block_count", "llama.block_xount"),
              HasSubstr("llama.block_count: expected a number from 1"));
  EXPECT_THAT(complaint("llama.rope.freq_base", "llama.rope.freq_bass"),
              HasSubstr("llama.rope.freq_bass: expected no such key, as its meaning is unknown"));
  EXPECT_THAT(complaint("blk.1.attn_q.weight", "blk.1.attn_x.weight"),
              HasSubstr("model.layers.1.self_attn.q_proj.weight"));
  EXPECT_THAT(message_of<IoError>([&] { load_language_model("/no/such.gguf"); }), HasSubstr("/no/such.gguf"));
  const testing::Scratch folder;
  folder.write("m-00001-of-00002.gguf", read_file(gguf_file("qwen2")));
  EXPECT_THAT(message_of<IoError>([&] { load_language_model(folder.path() / "m-00001-of-00002.gguf"); }),
              HasSubstr("m-00002-of-00002.gguf"));
}

// Writes both parts of qwen2, `from` replaced by `to` (of the same length) in one of them.
std::string complaint_of_parts(const testing::Scratch& folder, int changed, const std::string& from,
                               const std::string& to) {
  for (const int number : {1, 2}) {
    const std::string name = concat("qwen2-0000", number, "-of-00002");
    std::string bytes = read_file(gguf_file(name));
    if (number == changed) {
      const size_t at = bytes.find(from);
      EXPECT_NE(at, std::string::npos);
      bytes.replace(at, from.size(), to);
    }
    folder.write(name + ".gguf", bytes);
  }
  return message_of<DataError>([&] { GgufModel(folder.path() / "qwen2-00001-of-00002.gguf"); });
}

TEST(Gguf, ReadsFilesInParts) {
  const FamilyCase of("qwen2");
  const auto hidden = [&](const std::string& name) {
    nn::ForwardContext context;
    return (*load_language_model(gguf_file(name)))(of.texts, context).value();
  };
  const Tensor whole = hidden("qwen2");
  for (const char* part : {"qwen2-00001-of-00002", "qwen2-00002-of-00002"})
    EXPECT_TRUE(std::ranges::equal(hidden(part).values(), whole.values())) << part;
}

TEST(Gguf, NamesPartsThatDoNotBelongTogether) {
  const testing::Scratch folder;
  const auto value = [](std::string_view key, uint32_t kind, auto number) {
    std::string text(key);
    text.append(reinterpret_cast<const char*>(&kind), sizeof kind);
    return text.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  constexpr uint32_t kU16 = 2;
  const auto count = [&](int number) { return value("split.count", kU16, static_cast<uint16_t>(number)); };
  const auto no = [&](int number) { return value("split.no", kU16, static_cast<uint16_t>(number)); };
  EXPECT_THAT(complaint_of_parts(folder, 2, count(2), count(3)),
              HasSubstr("00002-of-00002.gguf: split.count: expected 2, as the file is called "
                        "qwen2-00002-of-00002.gguf, found 3"));
  EXPECT_THAT(complaint_of_parts(folder, 2, no(1), no(0)), HasSubstr("split.no: expected 1"));
  // The second part of another model.
  std::filesystem::copy_file(gguf_file("llama_grouped"), folder.path() / "other.gguf");
  folder.write("qwen2-00002-of-00002.gguf", read_file(folder.path() / "other.gguf"));
  const auto open = [&](const char* name) {
    return message_of<DataError>([&] { GgufModel(folder.path() / name); });
  };
  EXPECT_THAT(open("qwen2-00001-of-00002.gguf"), HasSubstr("split.count: expected 2"));
  folder.write("alone.gguf", read_file(gguf_file("qwen2-00001-of-00002")));
  EXPECT_THAT(open("alone.gguf"),
              HasSubstr("split.count: expected 1, as the file is called alone.gguf, found 2"));
  folder.write("m-00000-of-00000.gguf", read_file(gguf_file("qwen2")));
  EXPECT_EQ(GgufModel(folder.path() / "m-00000-of-00000.gguf").names().size(), 26U) << "no part";
  std::filesystem::remove(folder.path() / "qwen2-00002-of-00002.gguf");
  EXPECT_THAT(
      message_of<IoError>([&] { GgufModel(folder.path() / "qwen2-00001-of-00002.gguf"); }),
      HasSubstr("qwen2-00002-of-00002.gguf: expected this file, as qwen2-00001-of-00002.gguf is a part"));
  const auto tensors = [&](int number) { return value("split.tensors.count", 5, int32_t{number}); };
  EXPECT_THAT(complaint_of_parts(folder, 1, tensors(26), tensors(27)),
              HasSubstr("split.tensors.count: expected 26, which the 2 parts have, found 27"));
}

}  // namespace
}  // namespace qkv::models
