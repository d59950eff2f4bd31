// Folders with weights in bf16, f16 and int8.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/models/hub/pretrained.h"
#include "tests/models/small_transformer.h"
#include "tests/models/weight_files.h"
#include "tests/support/quantize_model.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using qkv::testing::message_of;
using qkv::testing::quantize_model;
using qkv::testing::same_bits;
using qkv::testing::Scratch;

std::unique_ptr<Transformer> random_model(Tying tying = Tying::three_way) {
  auto model = std::make_unique<Transformer>(small(tying));
  nn::initialise(*model, 3);
  return model;
}

Tensor logits(const Transformer& model) {
  nn::ForwardContext context;
  const Ragged source{Tensor::from(std::vector<int32_t>{3, 4, 5, 0, 9, 0}, {6}),
                      Offsets(std::vector<int32_t>{0, 4, 6})},
      target{Tensor::from(std::vector<int32_t>{29, 7, 8, 29}, {4}), Offsets(std::vector<int32_t>{0, 3, 4})};
  return model.logits()(model.decode(target, model.encode(source, context), context)).value();
}

class StoredDTypes : public ::testing::TestWithParam<std::tuple<Tying, DType>> {};

TEST_P(StoredDTypes, RoundTripsBitForBit) {
  const auto [tying, dtype] = GetParam();
  const Scratch folder;
  const auto model = random_model(tying);
  quantize_model(dtype, *model);
  save_transformer(folder.path(), *model, {});
  const size_t before = allocator_stats().in_use;
  const auto loaded = load_transformer(folder.path());
  EXPECT_EQ(allocator_stats().in_use, before) << "weights were copied";
  EXPECT_EQ(weight_dtype(*loaded), dtype);
  EXPECT_EQ(fields(loaded->config()), fields(model->config()));
  std::vector<nn::Parameter> expected;
  model->visit([&](const std::string&, const nn::Parameter& p) { expected.push_back(p); });
  size_t i = 0;
  loaded->visit([&](const std::string& name, const nn::Parameter& p) {
    EXPECT_TRUE(same_bits(p.variable.value(), expected[i].variable.value())) << name;
    const bool scaled = dtype == DType::i8 && p.allows_quantized();
    ASSERT_EQ(p.weight().scales().defined(), scaled) << name;
    if (scaled) {
      EXPECT_TRUE(same_bits(p.weight().scales(), expected[i].weight().scales())) << name;
    }
    ++i;
  });
  EXPECT_TRUE(same_bits(logits(*loaded), logits(*model)));
}

// Conversion on loading equals conversion before saving.
TEST_P(StoredDTypes, RoundingOnLoadEqualsRoundingBeforeSaving) {
  const auto [tying, dtype] = GetParam();
  const Scratch folder;
  const auto model = random_model(tying);
  save_transformer(folder.path(), *model, {});
  const auto loaded = load_transformer(folder.path(), {.dtype = dtype});
  quantize_model(dtype, *model);
  EXPECT_EQ(weight_dtype(*loaded), dtype);
  EXPECT_TRUE(same_bits(logits(*loaded), logits(*model)));
}

INSTANTIATE_TEST_SUITE_P(All, StoredDTypes,
                         ::testing::Combine(::testing::Values(Tying::none, Tying::two_way, Tying::three_way),
                                            ::testing::ValuesIn(kWeightDTypes)),
                         [](const auto& one) {
                           return name_of(std::get<0>(one.param)) + "_" + name_of(std::get<1>(one.param));
                         });

TEST(WeightDTypes, AreCloseToF32) {
  const auto model = random_model();
  const Tensor exact = logits(*model);
  double largest = 0;
  for (const float x : exact.values()) largest = std::max(largest, std::abs(double{x}));
  for (const auto& [dtype, share] :
       {std::pair{DType::bf16, 0.02}, std::pair{DType::f16, 0.002}, std::pair{DType::i8, 0.06}}) {
    const auto rounded = random_model();
    quantize_model(dtype, *rounded);
    const Tensor found = logits(*rounded);
    for (int64_t i = 0; i < exact.numel(); ++i)
      ASSERT_NEAR(found.data()[i], exact.data()[i], share * largest) << name_of(dtype) << " at " << i;
  }
}

TEST(WeightDTypes, EveryMatrixButPositionsIsRounded) {
  TransformerConfig config = small(Tying::none);
  config.positions = nn::PositionKind::learned;
  const Transformer model(config);
  model.visit([](const std::string& name, const nn::Parameter& p) {
    const bool matrix =
        p.shape.rank() == 2 && name != "final_logits_bias" && name.find("positions") == std::string::npos;
    EXPECT_EQ(p.allows_quantized(), matrix) << name;
  });
}

// 16-bit weights of other writers are read in place, with the results of the same weights in f32.
TEST(WeightDTypes, LoadsF16AndBf16OfOtherWriters) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Scratch folder;
    const auto model = random_model();
    save_transformer(folder.path(), *model, {});
    std::vector<io::NamedTensor> tensors;
    model->visit([&](const std::string& name, const nn::Parameter& p) {
      // Norms and biases in 16 bits too, as written by transformers.
      tensors.push_back({name, to_dtype({p.variable.value()}, dtype).values});
    });
    io::write_safetensors(folder / "model.safetensors", tensors);
    const auto loaded = load_transformer(folder.path());
    EXPECT_EQ(weight_dtype(*loaded), dtype);
    loaded->visit([&](const std::string& name, const nn::Parameter& p) {
      EXPECT_EQ(p.variable.value().dtype(), p.allows_quantized() ? dtype : DType::f32) << name;
      EXPECT_EQ(p.variable.value().read_only(), p.allows_quantized()) << name << ": mapped, or converted";
    });
    const auto wide = load_transformer(folder.path(), {.dtype = DType::f32});
    const auto int8 = load_transformer(folder.path(), {.dtype = DType::i8});
    EXPECT_EQ(weight_dtype(*wide), DType::f32);
    EXPECT_EQ(weight_dtype(*int8), DType::i8);
    EXPECT_TRUE(same_bits(logits(*wide), logits(*loaded))) << name_of(dtype);
  }
}

TEST(WeightDTypes, ConfigNamesTheDType) {
  const Scratch folder;
  for (const auto& [dtype, type, name] :
       {std::tuple{DType::f32, "marian", "float32"}, std::tuple{DType::bf16, "marian", "bfloat16"},
        std::tuple{DType::f16, "marian", "float16"}, std::tuple{DType::i8, "qkv-marian", "int8"}}) {
    const auto model = random_model();
    quantize_model(dtype, *model);
    save_transformer(folder.path(), *model, {});
    const auto config = nlohmann::json::parse(read_file(folder / "config.json"));
    EXPECT_EQ(config["model_type"], type);
    EXPECT_EQ(config["dtype"], name);
  }
}

// Configurations in qkv's own format have one model_type for all dtypes.
TEST(WeightDTypes, OwnFormatTakesAnyDType) {
  TransformerConfig config = small();
  config.norm = nn::NormPlacement::pre;
  Transformer model(config);
  nn::initialise(model, 3);
  for (const DType dtype : {DType::bf16, DType::f16, DType::i8}) {
    const Scratch folder;
    quantize_model(dtype, model);
    save_transformer(folder.path(), model, {});
    EXPECT_EQ(nlohmann::json::parse(read_file(folder / "config.json"))["model_type"], "qkv");
    const auto loaded = load_transformer(folder.path());
    EXPECT_EQ(weight_dtype(*loaded), dtype);
    EXPECT_TRUE(same_bits(logits(*loaded), logits(model)));
  }
}

// A frozen model of any dtype can run while another one trains, as a teacher, with the same bits as alone.
TEST(WeightDTypes, FrozenTeacherRunsUnderATape) {
  const Scratch folder;
  save_transformer(folder.path(), *random_model(), {});
  for (const DType dtype : kWeightDTypes) {
    const auto teacher = load_transformer(folder.path(), {.dtype = dtype});
    const Tensor alone = logits(*teacher);
    Tape tape;
    EXPECT_TRUE(same_bits(logits(*teacher), alone)) << name_of(dtype);
    teacher->visit([](const std::string& name, const nn::Parameter& p) {
      EXPECT_FALSE(p.variable.requires_grad()) << name;
    });
  }
  const auto student = load_transformer(folder.path(), {.dtype = DType::bf16, .trainable = true});
  Tape tape;
  EXPECT_NE(message_of<UsageError>([&] { logits(*student); }).find("only an f32 table can be trained"),
            std::string::npos);
}

// Values stay in the mapped file; only training may write to them.
TEST(WeightDTypes, TrainableValuesCanBeWritten) {
  const Scratch folder;
  save_transformer(folder.path(), *random_model(), {});
  const std::string before = read_file(folder / "model.safetensors");
  const auto loaded = load_transformer(folder.path(), {.trainable = true});
  loaded->visit([](const std::string&, const nn::Parameter& p) {
    Variable variable = p.variable;
    variable.mutable_value().data()[0] = 7;
  });
  EXPECT_EQ(read_file(folder / "model.safetensors"), before) << "the file changed";
  load_transformer(folder.path())->visit([&](const std::string&, const nn::Parameter& p) {
    Variable variable = p.variable;
    EXPECT_NE(message_of<UsageError>([&] {
                variable.mutable_value().data()[0] = 7;
              }).find((folder / "model.safetensors").string()),
              std::string::npos);
  });
}

class BadDTypes : public qkv::testing::DamagedWeights {
 protected:
  BadDTypes() {
    const auto model = random_model();
    quantize_model(DType::i8, *model);
    save_transformer(folder_, *model, {});
  }
  void load(const std::filesystem::path& folder) const override { load_transformer(folder); }

  const std::string weight_ = "model.encoder.layers.1.fc1.weight";
};

TEST_F(BadDTypes, RejectsMissingAndInvalidScales) {
  rewrite(weight_ + "_scale", [](const Tensor&) { return Tensor::full({25}, 0.1f); });
  expect_refusal({"model.safetensors", weight_ + "_scale", "[24]", "[25]"});
  rewrite(weight_ + "_scale", [](const Tensor&) { return Tensor::full({24}, std::nanf("")); });
  expect_refusal({weight_, "finite scales"});
  rewrite(weight_ + "_scale", [](const Tensor&) { return Tensor::zeros({24}, DType::i32); });
  expect_refusal({weight_, "F32", "I32"});
  rewrite(weight_ + "_scale", [](const Tensor&) { return Tensor(); });
  expect_refusal({weight_, weight_ + "_scale", "found none"});
}

TEST_F(BadDTypes, RejectsDTypesThatContradictTheConfig) {
  set("dtype", "int4");
  expect_refusal({"config.json", "dtype", "int8", "int4"});
  set("dtype", "float32");
  expect_refusal({"config.json", "dtype", "expected \"int8\"", "qkv-marian", "float32"});
  set("model_type", "marian");
  expect_refusal({"model.safetensors", "expected no I8", "config.json"});
  set("dtype", "int8");
  expect_refusal({"config.json", "dtype", "expected anything but \"int8\"", "marian"});
  set("model_type", "qkv-marian");
  rewrite(weight_, [](const Tensor& numbers) { return Tensor::full(numbers.shape(), 0.5f); });
  expect_refusal({weight_, "expected I8", "F32"});
}

TEST_F(BadDTypes, RejectsI8Biases) {
  rewrite("model.encoder.layers.0.fc1.bias",
          [](const Tensor& bias) { return Tensor::zeros(bias.shape(), DType::i8); });
  expect_refusal({"model.encoder.layers.0.fc1.bias", "expected F32, F16 or BF16", "I8"});
}

TEST(WeightDTypes, StepNeitherCompilesNorAllocates) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    const auto model = random_model();
    quantize_model(dtype, *model);
    const auto start = [&] {
      nn::ForwardContext context;
      const Ragged source{Tensor::from(std::vector<int32_t>{3, 4, 5, 0}, {4}), Offsets::uniform(1, 4)};
      return model->start(model->encode(source, context));
    };
    qkv::testing::expect_lean_steps(*model, start, 29, name_of(dtype));
  }
}

}  // namespace
