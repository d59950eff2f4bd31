// Operations compared with PyTorch's (tests/golden/pytorch.py).

#include <gtest/gtest.h>

#include "qkv/ops/activation.h"
#include "qkv/ops/attention.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/general/weighted_sum.h"
#include "qkv/ops/linear.h"
#include "qkv/ops/linear_cross_entropy.h"
#include "qkv/ops/norm.h"
#include "tests/support/golden.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

std::string case_name(const ::testing::TestParamInfo<std::string>& info) {
  return std::filesystem::path(info.param).stem().string();
}

class Attention : public ::testing::TestWithParam<std::string> {};

TEST_P(Attention, AgreesWithPyTorch) {
  const Golden golden(GetParam());
  const Variable q = Variable::parameter(golden["query"]), k = Variable::parameter(golden["key"]);
  const Variable v = Variable::parameter(golden["value"]);
  AttentionOptions options{.causal = golden.flag("causal"), .return_weights = true};
  if (golden.has("keep")) options.keep = golden["keep"];
  if (golden.has("bias")) options.bias = Variable::parameter(golden["bias"]);
  if (golden.text("case") == "attention_scale") options.scale = std::stof(golden.text("scale"));
  Tape tape;
  const AttentionResult result = scaled_dot_product_attention(q, k, v, options);
  expect_close(result.output.value(), golden["output"], "output");
  if (golden.has("weights")) {
    for (int64_t b = 0; b < q.shape()[0]; ++b) {
      const Tensor& weights = result.weights[static_cast<size_t>(b)];
      expect_close(weights, golden["weights"].slice_rows(b, 1).reshape(weights.shape()), "weights", 1e-6);
    }
  }
  const Tensor upstream = golden["grad_output"];
  tape.backward(weighted_sum(result.output, upstream));
  expect_close(q.grad(), golden["grad.query"], "gradient of query");
  expect_close(k.grad(), golden["grad.key"], "gradient of key");
  expect_close(v.grad(), golden["grad.value"], "gradient of value");
  if (golden.has("bias")) expect_close(options.bias.grad(), golden["grad.bias"], "gradient of bias");
}

INSTANTIATE_TEST_SUITE_P(Golden, Attention, ::testing::ValuesIn(golden_files("ops", "attention_")),
                         case_name);

Golden golden_case(const std::string& name) {
  return Golden(golden_files("ops", name + ".safetensors").at(0));
}

TEST(Golden, Activations) {
  const std::vector<std::pair<std::string, Activation>> cases{{"relu", Activation::relu},
                                                              {"gelu", Activation::gelu_exact},
                                                              {"gelu_tanh", Activation::gelu_tanh},
                                                              {"silu", Activation::silu}};
  for (const auto& [name, activation] : cases) {
    const Golden golden = golden_case(name);
    const Variable x = Variable::parameter(golden["input"]);
    Tape tape;
    const Variable y = activate(x, activation);
    expect_close(y.value(), golden["output"], name, 1e-6);
    tape.backward(weighted_sum(y, golden["grad_output"]));
    expect_close(x.grad(), golden["grad.input"], name + ": gradient", 1e-6);
  }
}

TEST(Golden, LayerNorm) {
  for (const std::string& path : golden_files("ops", "layer_norm")) {
    const Golden golden(path);
    const Variable x = Variable::parameter(golden["input"]),
                   weight = Variable::parameter(golden["param.weight"]);
    const Variable bias = Variable::parameter(golden["param.bias"]);
    Tape tape;
    const Variable y = layer_norm(x, weight, bias, std::stof(golden.text("epsilon")));
    expect_close(y.value(), golden["output"], path);
    tape.backward(weighted_sum(y, golden["grad_output"]));
    expect_close(x.grad(), golden["grad.input"], path + ": gradient of x");
    expect_close(weight.grad(), golden["grad.param.weight"], path + ": gradient of the weight");
    expect_close(bias.grad(), golden["grad.param.bias"], path + ": gradient of the bias");
  }
}

TEST(Golden, Linear) {
  const Golden golden = golden_case("linear");
  const Variable x = Variable::parameter(golden["input"]), w = Variable::parameter(golden["param.weight"]);
  const Variable b = Variable::parameter(golden["param.bias"]);
  const LinearWeights weights({w}, {b});
  Tape tape;
  const Variable y = linear(x, weights);
  expect_close(y.value(), golden["output"], "output");
  tape.backward(weighted_sum(y, golden["grad_output"]));
  expect_close(x.grad(), golden["grad.input"], "gradient of x");
  expect_close(w.grad(), golden["grad.param.weight"], "gradient of the weight");
  expect_close(b.grad(), golden["grad.param.bias"], "gradient of the bias");
}

TEST(Golden, CrossEntropy) {
  for (const std::string& path : golden_files("ops", "cross_entropy")) {
    const Golden golden(path);
    const Variable x = Variable::parameter(golden["input"]), w = Variable::parameter(golden["param.weight"]);
    const Variable b = golden.has("param.bias") ? Variable::parameter(golden["param.bias"]) : Variable();
    const LinearWeights weights({w}, {b});
    const Tensor labels = golden["labels"];
    Tape tape;
    const CrossEntropyResult result =
        linear_cross_entropy(x, weights, labels,
                             {.label_smoothing = std::stof(golden.text("label_smoothing")),
                              .factor = 1.0f / static_cast<float>(labels.numel()),
                              .chunk_rows = 10});
    expect_close(result.loss.value(), golden["output"], "loss");
    double nll = 0;
    for (const float row : golden["row_nll"].values()) nll += row;
    EXPECT_NEAR(result.sums().nll, nll, 1e-4);
    tape.backward(weighted_sum(result.loss, golden["grad_output"]));
    expect_close(x.grad(), golden["grad.input"], "gradient of x");
    expect_close(w.grad(), golden["grad.param.weight"], "gradient of the weight");
    if (b.defined()) expect_close(b.grad(), golden["grad.param.bias"], "gradient of the bias");
  }
}

TEST(Golden, Embedding) {
  const Golden golden = golden_case("embedding");
  const Variable table = Variable::parameter(golden["param.weight"]);
  const Variable positions = golden["sinusoids_interleaved"];
  Tape tape;
  const Variable y = embedding(table, golden["ids"], positions,
                               {.factor = std::stof(golden.text("factor")), .position = golden["position"]});
  expect_close(y.value(), golden["output"], "output");
  tape.backward(weighted_sum(y, golden["grad_output"]));
  expect_close(table.grad(), golden["grad.param.weight"], "gradient of the table");
}

}  // namespace
