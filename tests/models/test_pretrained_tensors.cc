// Tensors of a folder: missing ones, shards, buffers, and tables that are tied.

#include "qkv/models/hub/pretrained.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "tests/models/folder_copy.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

TEST(PretrainedTensors, NamesMissingAndMismatchedTensors) {
  const FolderCopy missing("gpt2");
  missing.rewrite([](auto& tensors) {
    std::erase_if(tensors, [](const auto& one) { return one.name == "transformer.h.1.attn.c_attn.weight"; });
  });
  expect_parts(missing.language_error(),
               {"model.safetensors", "transformer.h.1.attn.c_attn.weight", "[8, 24]", "found none"});
  const FolderCopy shape("gpt2");
  shape.replace("config.json", "\"n_inner\": 12", "\"n_inner\": 13");
  expect_parts(shape.language_error(), {"transformer.h.0.mlp.c_fc.weight", "[8, 13]", "[8, 12]"});
  const FolderCopy dtype("gpt2");
  dtype.rewrite([](auto& tensors) {
    for (auto& one : tensors) {
      if (one.name == "transformer.ln_f.bias") one.tensor = Tensor::zeros({8}, DType::i32);
    }
  });
  expect_parts(dtype.language_error(), {"transformer.ln_f.bias", "F32", "I32"});
}

TEST(PretrainedTensors, FindsShardsByTheIndex) {
  const FolderCopy whole("llama_grouped+shards");
  nn::ForwardContext context;
  expect_close(flat((*load_language_model(whole.folder.path()))(whole.one.texts, context).value()),
               whole.one.expected["hidden"], "hidden", 5e-6);
  std::string shard;
  for (const auto& entry : std::filesystem::directory_iterator(whole.folder.path())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("model-00002-of")) shard = name;
  }
  ASSERT_FALSE(shard.empty());
  std::filesystem::rename(whole.folder / shard.c_str(), whole.folder / "elsewhere");
  expect_parts(whole.language_error(), {"model.safetensors.index.json", shard, "no such file"});
  // An invalid file name is a missing file.
  const std::string too_long(300, 'x');
  whole.replace("model.safetensors.index.json", shard, too_long);
  expect_parts(whole.language_error(), {"model.safetensors.index.json", too_long, "no such file"});
  whole.replace("model.safetensors.index.json", too_long, shard);
  whole.replace("model.safetensors.index.json", shard, "../" + shard);
  expect_parts(whole.language_error(), {"the name of a file beside it", "../" + shard});
}

TEST(PretrainedTensors, AnIndexMayNameBuffersThatAreNotStored) {
  const FolderCopy whole("llama_grouped+shards");
  const std::string index = read_file(whole.folder / "model.safetensors.index.json");
  const size_t at = index.find("\"model.layers.1.mlp.up_proj.weight\"");
  ASSERT_NE(at, index.npos);
  std::string more = index;
  more.insert(at, "\"model.rotary_emb.inv_freq\": \"model-00001-of-00002.safetensors\", ");
  const size_t shard = index.find("model-0", at);
  more.replace(more.find("model-00001-of-00002.safetensors", at), 32,
               index.substr(shard, index.find('"', shard) - shard));
  whole.folder.write("model.safetensors.index.json", more);
  EXPECT_NO_THROW(load_language_model(whole.folder.path()));
  more.replace(more.find("model.layers.1.mlp.up_proj.weight"), 33, "model.layers.1.mlp.up_proj.height");
  whole.folder.write("model.safetensors.index.json", more);
  expect_parts(whole.language_error(), {"model.safetensors.index.json", "model.layers.1.mlp.up_proj.weight"});
}

// Files written by safetensors' save_model() have tied tensors under one of their names.
TEST(PretrainedTensors, ReadsTiedTensorsUnderTheOtherName) {
  nn::ForwardContext context;
  const auto rename = [](const FolderCopy& copy, const std::string& from, const std::string& to) {
    copy.rewrite([&](auto& tensors) {
      const auto found = std::ranges::find(tensors, from, &io::NamedTensor::name);
      ASSERT_NE(found, tensors.end()) << from;
      found->name = to;
    });
  };
  for (const auto& [name, table] : {std::pair("gpt2", "transformer.wte.weight"),
                                    {"llama_grouped", "model.embed_tokens.weight"},
                                    {"mistral", "model.embed_tokens.weight"}}) {
    const FolderCopy copy(name);
    const auto expected = load_language_model(copy.one.folder);
    if (!expected->config().tied)
      copy.replace("config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    const auto tied = load_language_model(copy.folder.path());
    const Tensor before = tied->logits()((*tied)(copy.one.texts, context)).value();
    copy.rewrite([](auto& tensors) {
      std::erase_if(tensors, [](const auto& one) { return one.name == "lm_head.weight"; });
    });
    rename(copy, table, "lm_head.weight");
    const auto found = load_language_model(copy.folder.path());
    const Tensor after = found->logits()((*found)(copy.one.texts, context)).value();
    if (expected->config().tied) {
      EXPECT_TRUE(std::ranges::equal(before.values(), after.values())) << name;
    }
    EXPECT_TRUE(found->config().tied) << name;
  }
  for (const auto& [name, table, head] :
       {std::tuple("bert_masked", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
        {"roberta_masked", "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"},
        {"distilbert_masked", "distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"}}) {
    const FolderCopy copy(name);
    const Tensor types = copy.one.expected["types"];
    const auto logits = [&] {
      const auto model = load_text_encoder(copy.folder.path());
      return model->masked_language_logits((*model)(copy.one.texts, context, types)).value();
    };
    const Tensor before = logits();
    copy.rewrite([head = head](auto& tensors) {
      std::erase_if(tensors, [&](const auto& one) { return one.name == head; });
    });
    rename(copy, table, head);
    EXPECT_TRUE(std::ranges::equal(before.values(), logits().values())) << name;
    // Both, and different: transformers 5 would use two tables, which these models do not have here.
    copy.rewrite([&, head = head, table = table](auto& tensors) {
      const auto found = std::ranges::find(tensors, head, &io::NamedTensor::name);
      tensors.push_back({table, Tensor::zeros(found->tensor.shape())});
    });
    expect_parts(copy.encoder_error(), {"model.safetensors", head, table});
  }
}

// As in transformers 5, for any value of "tie_word_embeddings".
TEST(PretrainedTensors, ATableAndAHeadThatDifferAreNotTied) {
  nn::ForwardContext context;
  const FolderCopy copy("gpt2");
  Tensor head;
  copy.rewrite([&](auto& tensors) {
    const auto table = std::ranges::find(tensors, "transformer.wte.weight", &io::NamedTensor::name);
    head = table->tensor.clone();
    for (float& value : head.values()) value = 0.25f - value;
    tensors.push_back({"lm_head.weight", head});
  });
  const auto model = load_language_model(copy.folder.path());
  EXPECT_FALSE(model->config().tied);
  const Variable hidden = (*model)(copy.one.texts, context);
  expect_close(flat(hidden.value()), copy.one.expected["hidden"], "hidden", 5e-6);
  Tensor found;
  model->visit([&](const std::string& name, const nn::Parameter& parameter) {
    if (name == "lm_head.weight") found = parameter.variable.value();
  });
  ASSERT_TRUE(found.defined());
  EXPECT_TRUE(std::ranges::equal(std::as_const(found).values(), head.values()));
  copy.rewrite([&](auto& tensors) {
    const auto table = std::ranges::find(tensors, "transformer.wte.weight", &io::NamedTensor::name);
    std::ranges::find(tensors, "lm_head.weight", &io::NamedTensor::name)->tensor = table->tensor.clone();
  });
  EXPECT_TRUE(load_language_model(copy.folder.path())->config().tied) << "equal tensors";
}

}  // namespace
