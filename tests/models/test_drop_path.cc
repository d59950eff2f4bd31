// Training models of each kind with stochastic depth, and with layers recomputed in the backward pass.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "qkv/base/error.h"
#include "qkv/models/shape.h"
#include "qkv/models/transformer.h"
#include "qkv/ops/general/weighted_sum.h"
#include "tests/models/small_transformer.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

using Gradients = std::map<std::string, Tensor>;

ModelShape small_shape(float drop_path) {
  return {.layers = 3,
          .d_model = 16,
          .heads = 2,
          .d_ff = 24,
          .max_positions = 12,
          .dropout = 0.1f,
          .attention_dropout = 0.1f,
          .drop_path = drop_path};
}

Ragged some_ids() { return Ragged::from<int32_t>({{1, 5, 7, 2}, {1, 2}, {1, 9, 3, 4, 2}, {1, 8, 2}}); }

template <class Model>
Gradients gradients(const Model& model, bool recompute,
                    const std::function<Variable(nn::ForwardContext&)>& run) {
  nn::initialise(model, 3);
  nn::ForwardContext context{.training = true, .seed = 6, .step = 2, .recompute = recompute};
  Tape tape;
  const Variable y = run(context);
  tape.backward(weighted_sum(y, random_tensor(y.shape(), 8)));
  Gradients found{{"result", y.value()}};
  model.visit([&](const std::string& name, const nn::Parameter& parameter) {
    if (parameter.variable.has_grad()) found[name] = parameter.variable.grad();
  });
  return found;
}

Gradients of_bert(float drop_path, bool recompute) {
  const TextEncoder model(bert(small_shape(drop_path), 11));
  return gradients(model, recompute, [&](nn::ForwardContext& context) { return model(some_ids(), context); });
}

Gradients of_gpt2(float drop_path, bool recompute) {
  const LanguageModel model(gpt2(small_shape(drop_path), 11, 1, 2));
  return gradients(model, recompute, [&](nn::ForwardContext& context) { return model(some_ids(), context); });
}

Gradients of_vit(float drop_path, bool recompute) {
  const ImageEncoder model(vit(small_shape(drop_path), 3, 8, 4, {"cat", "dog"}));
  return gradients(model, recompute, [&](nn::ForwardContext& context) {
    return model(random_tensor({6, 3, 8, 8}, 1), context);
  });
}

Gradients of_transformer(float drop_path, bool recompute) {
  TransformerConfig config = small();
  EXPECT_TRUE(set_field(config, "drop_path", std::to_string(drop_path)));
  const Transformer model(config);
  return gradients(model, recompute, [&](nn::ForwardContext& context) {
    return model.decode(some_ids(), model.encode(some_ids(), context), context);
  });
}

void expect_same(const Gradients& found, const Gradients& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_EQ(std::memcmp(found.at(name).data(), tensor.data(), tensor.bytes()), 0) << name;
}

struct Case {
  const char* name;
  Gradients (*run)(float drop_path, bool recompute);
};

class DropPathOf : public ::testing::TestWithParam<Case> {};

TEST_P(DropPathOf, ChangesTrainingWithTheSameBitsWhenRecomputed) {
  const auto run = GetParam().run;
  const Gradients without = run(0, false), with = run(0.5f, false);
  EXPECT_GT(with.size(), 30u);
  EXPECT_NE(std::memcmp(with.at("result").data(), without.at("result").data(), with.at("result").bytes()), 0);
  expect_same(run(0.5f, true), with);
  expect_same(run(0, true), without);
}

INSTANTIATE_TEST_SUITE_P(Models, DropPathOf,
                         ::testing::Values(Case{"bert", of_bert}, Case{"gpt2", of_gpt2}, Case{"vit", of_vit},
                                           Case{"transformer", of_transformer}),
                         [](const auto& model) { return std::string(model.param.name); });

TEST(DropPath, IsAFieldOfTheShapes) {
  ModelShape shape = small_shape(0);
  EXPECT_TRUE(set_field(shape, "drop_path", "0.25"));
  EXPECT_EQ(bert(shape, 11).encoder.drop_path, 0.25f);
  EXPECT_EQ(llama(shape, 11, 1, 2).decoder.drop_path, 0.25f);
  EXPECT_EQ(vit(shape, 3, 8, 4, {}).encoder.drop_path, 0.25f);
  shape.drop_path = 1;
  EXPECT_NE(message_of<UsageError>([&] { shape.validate(); }).find("drop_path"), std::string::npos);
  TransformerConfig config = small();
  config.drop_path = 0.25f;
  EXPECT_EQ(config.encoder_stack().drop_path, 0.25f);
  EXPECT_EQ(config.decoder_stack().drop_path, 0.25f);
  config.drop_path = -0.1f;
  EXPECT_NE(message_of<UsageError>([&] { config.validate(); }).find("drop_path"), std::string::npos);
}

}  // namespace
