// Folders of all families with weights in bf16, f16 and int8.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/base/parallel.h"
#include "qkv/models/hub/copies.h"
#include "qkv/models/hub/pretrained.h"
#include "tests/models/precision/any_model.h"
#include "tests/models/weight_files.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

namespace fs = std::filesystem;

// Like quantize_folder(), which also opens tokenizers; the golden encoder-decoders have none.
void store(const fs::path& from, const fs::path& to, DType dtype) {
  if (folder_kind(from) == FolderKind::translation) {
    save_transformer(to, *load_transformer(from, {.dtype = dtype}), {});
  } else {
    quantize_folder(from, to, dtype);
  }
}

class FamilyDTypes : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  const std::string name_ = std::get<0>(GetParam());
  const DType dtype_ = std::get<1>(GetParam());
  const fs::path folder_ = golden_folder(name_);
  const AnyModel rounded_ = open_model(folder_, folder_, {.dtype = dtype_});
};

TEST_P(FamilyDTypes, AreCloseToF32) {
  EXPECT_EQ(rounded_.dtype, dtype_);
  const Tensor exact = open_model(folder_, folder_, {.dtype = DType::f32}).run(false),
               found = rounded_.run(false);
  double largest = 0, difference = 0;
  for (int64_t i = 0; i < exact.numel(); ++i) {
    largest = std::max(largest, std::abs(double{exact.data()[i]}));
    difference = std::max(difference, std::abs(double{exact.data()[i]} - found.data()[i]));
  }
  EXPECT_LT(difference, (dtype_ == DType::bf16 ? 0.03 : dtype_ == DType::f16 ? 0.004 : 0.12) * largest);
  EXPECT_GT(difference, 0) << "nothing was rounded";
}

TEST_P(FamilyDTypes, SameBitsInAnyBatchAndForAnyThreads) {
  const int before = threads();
  set_threads(1);
  const Tensor together = rounded_.run(false);
  for (const int count : {1, 3}) {
    set_threads(count);
    const Tensor alone = rounded_.run(true);
    EXPECT_TRUE(same_bits(alone, first_of(together, alone.rows())));
  }
  set_threads(before);
}

TEST_P(FamilyDTypes, StoringEqualsRoundingOnLoad) {
  const Scratch scratch;
  store(folder_, scratch / "rounded", dtype_);
  const size_t before = allocator_stats().in_use;
  const AnyModel stored = open_model(folder_, scratch / "rounded");
  // Only weights that the family stores transposed are copied.
  if (dtype_ == DType::i8) {
    EXPECT_EQ(allocator_stats().in_use, before) << "weights were copied";
  }
  EXPECT_EQ(stored.dtype, dtype_);
  std::vector<Variable> expected;
  rounded_.visit([&](const std::string&, const nn::Parameter& p) { expected.push_back(p.variable); });
  size_t i = 0;
  stored.visit([&](const std::string& parameter, const nn::Parameter& p) {
    EXPECT_TRUE(same_bits(p.variable.value(), expected[i].value())) << parameter;
    EXPECT_EQ(p.weight().scales().defined(), dtype_ == DType::i8 && p.allows_quantized());
    ++i;
  });
  EXPECT_TRUE(same_bits(stored.run(false), rounded_.run(false)));
  // Widening and rounding again keeps the values.
  EXPECT_EQ(open_model(folder_, scratch / "rounded", {.dtype = DType::f32}).dtype, DType::f32);
  store(scratch / "rounded", scratch / "again", dtype_);
  EXPECT_EQ(read_file(scratch / "again/model.safetensors"), read_file(scratch / "rounded/model.safetensors"));
  EXPECT_EQ(read_file(scratch / "again/config.json"), read_file(scratch / "rounded/config.json"));
}

INSTANTIATE_TEST_SUITE_P(
    All, FamilyDTypes,
    ::testing::Combine(::testing::Values("gpt2", "gpt2_untied_relu", "llama_grouped", "llama_biased",
                                         "bert_pretraining", "bert_texts", "roberta_tokens",
                                         "distilbert_masked", "vit_images", "vit_base", "deit_images", "t5",
                                         "t5_encoder"),
                       ::testing::Values(DType::bf16, DType::f16, DType::i8)),
    [](const auto& one) { return concat(std::get<0>(one.param), "_", name_of(std::get<1>(one.param))); });

// 16-bit folders of the hub; their results are tested in test_families.cc.
TEST(FamilyDTypes, FoldersKeepTheirDType) {
  for (const auto& [name, dtype] : {std::pair{"gpt2+bf16", DType::bf16}, std::pair{"llama+f16", DType::f16},
                                    std::pair{"bert_pretraining+bf16", DType::bf16}}) {
    const AnyModel model = open_model(golden_folder(name), golden_folder(name));
    EXPECT_EQ(model.dtype, dtype) << name;
    model.visit([&](const std::string& parameter, const nn::Parameter& p) {
      EXPECT_EQ(p.variable.value().dtype(), p.allows_quantized() ? model.dtype : DType::f32) << parameter;
    });
  }
  EXPECT_EQ(open_model(golden_folder("gpt2"), golden_folder("gpt2")).dtype, DType::f32);
}

TEST(FamilyDTypes, EveryMultipliedMatrixTakesAnyDType) {
  for (const char* name : {"gpt2_untied_relu", "llama", "bert_pretraining", "bert_texts", "deit_images"}) {
    open_model(golden_folder(name), golden_folder(name))
        .visit([&](const std::string& parameter, const nn::Parameter& p) {
          const bool added = parameter.find("position") != std::string::npos ||
                             parameter.find("types") != std::string::npos || parameter.ends_with("_token");
          EXPECT_EQ(p.allows_quantized(), p.shape.rank() == 2 && !added) << name << ": " << parameter;
        });
  }
}

TEST(FamilyDTypes, ConfigNamesTheDType) {
  const Scratch scratch;
  for (const auto& [dtype, type, name] :
       {std::tuple{DType::bf16, "bert", "bfloat16"}, std::tuple{DType::f16, "bert", "float16"},
        std::tuple{DType::i8, "qkv-bert", "int8"}}) {
    const fs::path to = scratch / name_of(dtype);
    quantize_folder(golden_folder("bert_masked"), to, dtype);
    const auto config = nlohmann::json::parse(read_file(to / "config.json"));
    EXPECT_EQ(config["model_type"], type);
    EXPECT_EQ(config["dtype"], name);
    EXPECT_EQ(folder_kind(to), FolderKind::encoder);
    EXPECT_EQ(family_of(to), "bert");
  }
}

TEST(FamilyDTypes, WritesLabelsInBothDirections) {
  const Scratch scratch;
  quantize_folder(golden_folder("bert_texts"), scratch / "out", DType::bf16);
  const auto config = nlohmann::json::parse(read_file(scratch / "out/config.json"));
  ASSERT_GT(config["id2label"].size(), 1u);
  EXPECT_EQ(config["label2id"].size(), config["id2label"].size());
  for (const auto& [number, label] : config["id2label"].items())
    EXPECT_EQ(config["label2id"][label.get<std::string>()], std::stoi(number)) << label;
}

TEST(FamilyDTypes, Bf16FolderKeepsTheFamilysTensorNames) {
  const Scratch scratch;
  quantize_folder(golden_folder("gpt2"), scratch / "out", DType::bf16);
  const io::SafetensorsFile before(golden_folder("gpt2") / "model.safetensors"),
      after(scratch / "out/model.safetensors");
  EXPECT_EQ(after.names(), before.names());
  for (const std::string& name : before.names()) EXPECT_EQ(after.shape(name), before.shape(name)) << name;
  EXPECT_EQ(after.dtype("transformer.h.1.attn.c_attn.weight"), "BF16");
  EXPECT_EQ(after.dtype("transformer.wte.weight"), "BF16");
  EXPECT_EQ(after.dtype("transformer.h.1.attn.c_attn.bias"), "F32");
}

TEST(FamilyDTypes, CopiesOtherFiles) {
  const Scratch scratch;
  const fs::path from = scratch / "from";
  fs::copy(golden_folder("bert_masked"), from);
  scratch.write("from/pytorch_model.bin", "weights of another format");
  scratch.write("from/preprocessor_config.json", "{}");
  scratch.write("from/vocab.txt", "a\n");
  quantize_folder(from, scratch / "to", DType::i8);
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "preprocessor_config.json", "vocab.txt"})
    EXPECT_EQ(read_file(scratch / "to" / name), read_file(from / name)) << name;
  EXPECT_FALSE(fs::exists(scratch / "to/pytorch_model.bin"));
  EXPECT_FALSE(fs::exists(scratch / "to/expected.safetensors"));
}

TEST(FamilyDTypes, StepNeitherCompilesNorAllocates) {
  for (const char* name : {"gpt2", "llama_grouped"}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
      const auto model = load_language_model(golden_folder(name), {.dtype = dtype});
      const FamilyCase one(name);
      expect_lean_steps(
          *model, [&] { return model->start(one.text(0)); }, 4, concat(name, ", ", name_of(dtype)));
    }
  }
}

class BadFamilyDTypes : public DamagedWeights {
 protected:
  BadFamilyDTypes() { quantize_folder(golden_folder("gpt2"), folder_, DType::i8); }
  void load(const fs::path& folder) const override { load_language_model(folder); }

  const std::string weight_ = "decoder.layers.1.fc1.weight";
};

TEST_F(BadFamilyDTypes, RejectsContradictoryConfigs) {
  set("dtype", "int4");
  expect_refusal({"config.json", "dtype", "int8", "int4"});
  set("dtype", "bfloat16");
  expect_refusal({"config.json", "dtype", "\"int8\"", "qkv-gpt2", "bfloat16"});
  set("dtype", "int8");
  set("model_type", "gpt2");
  expect_refusal({"config.json", "dtype", "anything but \"int8\"", "gpt2"});
  set("model_type", "qkv-gpt9");
  expect_refusal({"config.json", "model_type", "llama, mistral", "qkv-gpt9"});
}

TEST_F(BadFamilyDTypes, RejectsMismatchedTensors) {
  rewrite(weight_ + "_scale", [](const Tensor&) { return Tensor::full({13}, 0.1f); });
  expect_refusal({"model.safetensors", weight_ + "_scale", "[12]", "[13]"});
  rewrite(weight_ + "_scale", [](const Tensor&) { return Tensor(); });
  expect_refusal({"model.safetensors", weight_ + "_scale", "found none"});
  rewrite(weight_, [](const Tensor& numbers) { return Tensor::full(numbers.shape(), 0.5f); });
  expect_refusal({weight_, "expected I8", "config.json", "F32"});
  rewrite(weight_, [](const Tensor&) { return Tensor(); });
  expect_refusal({weight_, "[12, 8]", "found none"});
}

}  // namespace
