// Stacks whose activations are bf16 (LoadOptions::activations), on devices other than the CPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "qkv/base/files.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/reduce.h"
#include "tests/models/precision/any_model.h"
#include "tests/models/weight_files.h"
#include "tests/support/devices.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

// The fastest of the devices.
Device tested_device() { return has_backend(Device::cuda) ? Device::cuda : Device::reference; }

double norm_of_difference(const Tensor& x, const Tensor& y) {
  double squares = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double a = x.data()[i], b = y.data()[i];
    if (a != b) squares += (a - b) * (a - b);  // equal infinities: of masked logits
  }
  return std::sqrt(squares);
}

double norm(const Tensor& x) {
  double squares = 0;
  for (const float number : x.values()) {
    if (std::isfinite(number)) squares += double{number} * number;
  }
  return std::sqrt(squares);
}

// The distance of all numbers together, relative to their norm.
double distance(const Tensor& found, const Tensor& expected) {
  return norm_of_difference(found, expected) / norm(expected);
}

class Bf16Activations : public ::testing::TestWithParam<std::string> {};

TEST_P(Bf16Activations, AreCloseToF32) {
  const std::filesystem::path folder = golden_folder(GetParam());
  // Rounding may change which experts a token has.
  const bool experts = read_file(folder / "config.json").find("xpert") != std::string::npos;
  for (const Device device : kDevices) {
    if (device == Device::cpu || !has_backend(device)) continue;
    const Tensor expected = open_model(folder, folder, {.device = device}).run(false);
    const AnyModel model = open_model(folder, folder, {.device = device, .activations = DType::bf16});
    const Tensor found = model.run(false);
    ASSERT_EQ(found.shape(), expected.shape());
    ASSERT_EQ(found.dtype(), DType::f32);
    // As if weights were rounded to bf16 instead, which the same numbers are multiplied by.
    const Tensor of_weights = open_model(folder, folder, {.dtype = DType::bf16, .device = device}).run(false);
    EXPECT_LT(distance(found, expected), experts ? 0.2 : std::max(0.03, 3 * distance(of_weights, expected)))
        << name_of(device);
    EXPECT_GT(distance(found, expected), 0) << "nothing was rounded";
    if (device != Device::reference) continue;  // on others, sums of few rows have an order of their own
    const Tensor alone = model.run(true);
    EXPECT_TRUE(same_bits(alone, first_of(found, alone.rows()))) << "bits depend on the batch";
  }
}

std::vector<std::string> all_families() {
  std::vector<std::string> all;
  for (const FolderKind kind :
       {FolderKind::language, FolderKind::encoder, FolderKind::translation, FolderKind::image}) {
    for (const std::string& name : family_cases(kind, "")) {
      if (!name.starts_with("adapter_")) all.push_back(name);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Bf16Activations, ::testing::ValuesIn(all_families()), [](const auto& one) {
  std::string name = one.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

// Prompts in pieces and steps compute what the whole text does.
TEST(Bf16ActivationsOfDecoders, StepsAreCloseToTheWholeText) {
  for (const char* name : {"gpt2", "llama_grouped", "gemma2", "mistral"}) {
    for (const DType cache : {DType::f32, DType::bf16}) {
      const FamilyCase one(name);
      const auto model =
          load_language_model(one.folder, {.device = tested_device(), .activations = DType::bf16});
      const Ragged text = one.text(0);
      const int64_t tokens = text.values.numel();
      nn::ForwardContext context;
      const Tensor whole = to_host(model->logits()((*model)(text, context)).value());
      nn::DecoderState state = model->start({first_of(text.values, 2), Offsets::uniform(1, 2)}, cache);
      model->read({text.values.slice_rows(2, tokens - 3), Offsets::uniform(1, tokens - 3)}, state);
      const Tensor last = to_host(model->step(text.values.slice_rows(tokens - 1, 1), state));
      EXPECT_LT(distance(last, whole.slice_rows(tokens - 1, 1)), 0.03)
          << name << ", cache " << name_of(cache);
    }
  }
}

// Gradients of a training step with bf16 operands, whose activations are bf16 on a device.
TEST(Bf16ActivationsOfDecoders, GradientsAreCloseToThoseOfF32) {
  for (const char* name : {"gpt2", "llama_grouped", "gemma2"}) {
    const FamilyCase one(name);
    const auto gradients = [&](DType operands, bool recompute) {
      const auto model = load_language_model(
          one.folder, {.dtype = DType::f32, .trainable = true, .device = tested_device()});
      nn::ForwardContext context{.training = true, .recompute = recompute, .operands = operands};
      Tape tape;
      const Variable hidden = (*model)(one.texts, context);
      EXPECT_EQ(hidden.value().dtype(), DType::f32);
      tape.backward(mean(hidden * hidden));
      std::vector<Tensor> all;
      model->visit([&](const std::string&, const nn::Parameter& parameter) {
        const Tensor gradient = parameter.variable.grad();
        if (gradient.defined()) all.push_back(to_host(gradient));
      });
      return all;
    };
    const std::vector<Tensor> expected = gradients(DType::f32, false), found = gradients(DType::bf16, false),
                              again = gradients(DType::bf16, true);
    ASSERT_EQ(found.size(), expected.size());
    ASSERT_GT(found.size(), 10u);
    double largest = 0;
    for (const Tensor& gradient : expected) largest = std::max(largest, norm(gradient));
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].dtype(), DType::f32);
      // Some are zero but for rounding, as that of a bias of keys.
      EXPECT_LT(norm_of_difference(found[i], expected[i]), 0.1 * norm(expected[i]) + 1e-3 * largest)
          << name << ", parameter " << i;
      EXPECT_TRUE(same_bits(found[i], again[i])) << name << ", recomputed, parameter " << i;
    }
  }
}

TEST(Bf16ActivationsOfDecoders, AreRefusedOnTheCpu) {
  const std::filesystem::path folder = golden_folder("gpt2");
  EXPECT_EQ(message_of<UsageError>([&] { load_language_model(folder, {.activations = DType::bf16}); }),
            "activations: expected f32 on the device cpu, found bf16");
  EXPECT_EQ(message_of<UsageError>([&] {
              load_language_model(folder, {.device = Device::reference, .activations = DType::f16});
            }),
            "activations: expected f32 or bf16, found f16");
}

}  // namespace
