// GGUF files beside the folders that they were made from (tests/golden/gguf_models.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "qkv/base/json.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/config_reader.h"
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

TEST_P(GgufOf, HasTheBitsOfItsFolder) {
  const FamilyCase of(GetParam());
  const auto hidden = [&](const std::filesystem::path& path) {
    nn::ForwardContext context;
    const auto model = load_language_model(path);
    return model->logits()((*model)(of.texts, context)).value();
  };
  const Tensor expected = hidden(of.folder), found = hidden(gguf_file(GetParam()));
  ASSERT_EQ(found.shape(), expected.shape());
  EXPECT_TRUE(std::ranges::equal(found.values(), expected.values()));
  EXPECT_EQ(folder_kind(gguf_file(GetParam())), FolderKind::language);
  EXPECT_EQ(read_language_model_config(gguf_file(GetParam())).eos_ids,
            read_language_model_config(of.folder).eos_ids);
}

INSTANTIATE_TEST_SUITE_P(Gguf, GgufOf, ::testing::Values("llama_grouped", "qwen2", "qwen3"));

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

INSTANTIATE_TEST_SUITE_P(Gguf, GgufTokenizerOf, ::testing::Values("pieces", "bytes"));

TEST(Gguf, HasTheChatTemplateOfTheFile) {
  EXPECT_EQ(GgufModel(gguf_file("bytes")).chat_template(), "{{ messages[0].content }}");
  EXPECT_EQ(GgufModel(gguf_file("qwen2")).chat_template(), "");
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
              HasSubstr("general.architecture: expected one of llama, qwen2, qwen3, found \"mamba\""));
  EXPECT_THAT(complaint("llama.block_count", "llama.block_xount"),
              HasSubstr("llama.block_xount: expected no such key"));
  EXPECT_THAT(complaint("blk.1.attn_q.weight", "blk.1.attn_x.weight"),
              HasSubstr("model.layers.1.self_attn.q_proj.weight"));
  EXPECT_THAT(message_of<IoError>([&] { load_language_model("/no/such.gguf"); }), HasSubstr("/no/such.gguf"));
  const testing::Scratch folder;
  folder.write("m-00001-of-00002.gguf", read_file(gguf_file("qwen2")));
  EXPECT_THAT(message_of<IoError>([&] { load_language_model(folder.path() / "m-00001-of-00002.gguf"); }),
              HasSubstr("m-00002-of-00002.gguf"));
}

}  // namespace
}  // namespace qkv::models
