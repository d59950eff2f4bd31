// Which files there are, and which of them are chosen. The answers are those of the hub, with hostile ones.

#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "qkv/hub/choice.h"
#include "qkv/hub/digest.h"
#include "qkv/hub/listing.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using namespace qkv::hub;

const std::string kSha1(40, 'a'), kSha256(64, 'b');

// printf 'hello\n' | git hash-object --stdin; printf 'hello\n' | sha256sum
TEST(Digest, IsThatOfGitAndOfSha256sum) {
  const auto digest = [](const std::string& content, size_t digits) {
    const HubFile file{.path = "a", .bytes = std::ssize(content), .checksum = std::string(digits, '0')};
    Digest sum(file);
    for (const char c : content) sum.add({&c, 1});
    return sum.value();
  };
  EXPECT_EQ(digest("hello\n", 40), "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_EQ(digest("", 40), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(digest("hello\n", 64), "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
}

TEST(Listing, ReadsTheAnswersOfTheHub) {
  EXPECT_EQ(read_commit("{\"id\": \"a\", \"sha\": \"" + kSha1 + "\", \"siblings\": []}", "answer"), kSha1);
  const std::vector<HubFile> files = read_tree(
      "[{\"type\": \"directory\", \"oid\": \"x\", \"size\": 0, \"path\": \"1_Pooling\"},"
      "{\"type\": \"file\", \"oid\": \"" +
          kSha1 +
          "\", \"size\": 190, \"path\": \"1_Pooling/config.json\"},"
          "{\"type\": \"file\", \"oid\": \"" +
          kSha1 +
          "\", \"size\": 5, \"path\": \"model.safetensors\", \"xetHash\": \"x\","
          " \"lfs\": {\"oid\": \"" +
          kSha256 + "\", \"size\": 90868376, \"pointerSize\": 133}}]",
      "answer");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].path, "1_Pooling/config.json");
  EXPECT_EQ(files[0].bytes, 190);
  EXPECT_EQ(files[0].checksum, kSha1);
  EXPECT_FALSE(files[0].has_sha256());
  EXPECT_EQ(files[1].bytes, 90868376);
  EXPECT_EQ(files[1].checksum, kSha256);
  EXPECT_TRUE(files[1].has_sha256());
}

TEST(Listing, RefusesHostileAnswers) {
  const auto entry = [](const std::string& path, const std::string& size, const std::string& oid) {
    return "[{\"type\": \"file\", \"path\": \"" + path + "\", \"size\": " + size + ", \"oid\": \"" + oid +
           "\"}]";
  };
  EXPECT_EQ(read_tree(entry("a", "1", kSha1), "answer").size(), 1U);
  for (const char* const path :
       {"", "/etc/passwd", "../a", "a/../b", "a//b", "a\\\\b", "a/", ".", "a\\u0000b", "a\\nb"})
    expect_throw<DataError>("expected a file in the model's folder",
                            [&] { read_tree(entry(path, "1", kSha1), "answer"); });
  for (const char* const size : {"-1", "1.5", "\"1\"", "null", "99999999999999999999", "9223372036854775807"})
    EXPECT_THROW(read_tree(entry("a", size, kSha1), "answer"), DataError) << size;
  for (const std::string& oid : {std::string(), std::string(39, 'a'), std::string(40, 'A'),
                                 std::string(40, '/'), kSha256, "../" + std::string(37, 'a')})
    expect_throw<DataError>("40 hexadecimal digits", [&] { read_tree(entry("a", "1", oid), "answer"); });
  for (const char* const text :
       {"", "{}", "[1]", "[{}]", "[{\"type\": 1}]", "<html>", "[{\"type\": \"file\"}]"})
    EXPECT_THROW(read_tree(text, "answer"), DataError) << text;
  for (const std::string& text :
       {std::string("{}"), std::string("{\"sha\": 1}"), "{\"sha\": \"" + kSha256 + "\"}"})
    expect_throw<DataError>("answer", [&] { read_commit(text, "answer"); });
}

TEST(Listing, FindsTheNextPage) {
  EXPECT_EQ(next_page("<https://a/b?cursor=c>; rel=\"next\""), "https://a/b?cursor=c");
  EXPECT_EQ(next_page("</p>; rel=\"prev\", </n>; rel=next"), "/n");
  for (const char* const none :
       {"", "<a>", "<a>; rel=\"prev\"", "a; rel=\"next\"", "<a; rel=\"next\"", ">a<"})
    EXPECT_FALSE(next_page(none)) << none;
}

std::vector<std::string> taken(const std::vector<std::string>& paths,
                               const std::vector<std::string>& include = {},
                               const std::vector<std::string>& exclude = {}) {
  std::vector<HubFile> files;
  for (const std::string& path : paths) files.push_back({.path = path});
  const Choice choice = choose(files, include, exclude);
  EXPECT_EQ(choice.taken.size() + choice.skipped.size(), paths.size());
  std::vector<std::string> result;
  for (const HubFile& file : choice.taken) result.push_back(file.path);
  return result;
}

using Paths = std::vector<std::string>;

// The files of sentence-transformers/all-MiniLM-L6-v2, of Marian, of a sharded model and of others.
TEST(Choice, TakesWhatQkvOpens) {
  EXPECT_EQ(taken({".gitattributes",
                   "1_Pooling/config.json",
                   "README.md",
                   "config.json",
                   "config_sentence_transformers.json",
                   "data_config.json",
                   "model.safetensors",
                   "modules.json",
                   "onnx/model.onnx",
                   "onnx/tokenizer.json",
                   "openvino/openvino_model.bin",
                   "openvino/openvino_model.xml",
                   "pytorch_model.bin",
                   "rust_model.ot",
                   "sentence_bert_config.json",
                   "special_tokens_map.json",
                   "tf_model.h5",
                   "tokenizer.json",
                   "tokenizer_config.json",
                   "train_script.py",
                   "vocab.txt"}),
            (Paths{"1_Pooling/config.json", "config.json", "config_sentence_transformers.json",
                   "data_config.json", "model.safetensors", "modules.json", "sentence_bert_config.json",
                   "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"}));
  EXPECT_EQ(taken({"source.spm", "target.spm", "vocab.json", "flax_model.msgpack", "generation_config.json"}),
            (Paths{"source.spm", "target.spm", "vocab.json", "generation_config.json"}));
  EXPECT_EQ(taken({"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                   "model.safetensors.index.json", "model.fp16.safetensors", "consolidated.safetensors",
                   "original/consolidated.00.pth", "original/params.json", "metal/model.bin", "model-q4.gguf",
                   "tokenizer.model", "chat_template.jinja", "additional_chat_templates/tool_use.jinja",
                   "pytorch_model.bin.index.json", "2_Dense/model.safetensors", "adapter_model.safetensors",
                   "unet/model.safetensors", "spiece.model", "merges.txt", "requirements.txt"}),
            (Paths{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                   "model.safetensors.index.json", "tokenizer.model", "chat_template.jinja",
                   "additional_chat_templates/tool_use.jinja", "2_Dense/model.safetensors",
                   "adapter_model.safetensors", "spiece.model", "merges.txt"}));
  // Weights of torch.save(), where a folder has no others.
  const Paths old{"config.json",
                  "pytorch_model-00001-of-00002.bin",
                  "pytorch_model-00002-of-00002.bin",
                  "pytorch_model.bin.index.json",
                  "2_Dense/pytorch_model.bin",
                  "adapter_model.bin"};
  Paths more = old;
  more.insert(more.end(), {"training_args.bin", "optimizer.bin", "pytorch_model.fp16.bin",
                           "pytorch_model-a-of-b.bin", "unet/pytorch_model.bin"});
  EXPECT_EQ(taken(more), old);
  EXPECT_EQ(taken({"pytorch_model.bin", "model.safetensors", "2_Dense/pytorch_model.bin"}),
            (Paths{"model.safetensors", "2_Dense/pytorch_model.bin"}));
  const Paths both{"pytorch_model.bin", "adapter_model.safetensors"};
  EXPECT_EQ(taken(both), both) << "a model, and an adapter";
}

// As fnmatch of Python, which huggingface_hub uses.
TEST(Choice, FollowsPatterns) {
  const Paths all{"config.json", "onnx/a/model.onnx", "onnx/model.onnx", "pytorch_model.bin"};
  EXPECT_EQ(taken(all, {"*.onnx"}), (Paths{"onnx/a/model.onnx", "onnx/model.onnx"}));
  EXPECT_EQ(taken(all, {"onnx/"}), (Paths{"onnx/a/model.onnx", "onnx/model.onnx"}));
  EXPECT_EQ(taken(all, {"*.bin", "config.json"}), (Paths{"config.json", "pytorch_model.bin"}));
  EXPECT_EQ(taken(all, {"*"}, {"*/a/*", "[a-c]*"}), (Paths{"onnx/model.onnx", "pytorch_model.bin"}));
  EXPECT_EQ(taken(all, {}, {"config.json", "*.bin"}), Paths{});
  EXPECT_EQ(taken(all, {"model"}), Paths{}) << "the whole path must match";
}

}  // namespace
