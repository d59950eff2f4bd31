// Activations, norms, tables, affine maps and the loss against PyTorch's (tests/golden/pytorch.py).

#include <numeric>

#include "qkv/ops/linear.h"
#include "tests/golden/pytorch.h"

namespace qkv {
namespace {

using testing::Golden;

// y, and the gradients that arrive at the leaves when the golden one arrives at y.
template <class Function>
void expect_golden(const Golden& golden, const std::vector<std::pair<std::string, Variable>>& leaves,
                   const Function& function) {
  Tape tape;
  const Variable y = function();
  golden.expect("output", y.value());
  tape.backward(weighted_sum(y, golden.tensor("grad_output")));
  for (const auto& [name, leaf] : leaves) golden.expect("grad." + name, leaf.grad());
}

TEST(PytorchFunctions, Activations) {
  for (const auto& [name, activation] :
       std::vector<std::pair<std::string, Activation>>{{"relu", Activation::relu},
                                                       {"gelu", Activation::gelu_exact},
                                                       {"gelu_tanh", Activation::gelu_tanh},
                                                       {"silu", Activation::silu}}) {
    SCOPED_TRACE(name);
    const Golden golden("ops/golden/" + name);
    const Variable x = golden.leaf("input");
    expect_golden(golden, {{"input", x}}, [&, kind = activation] { return activate(x, kind); });
  }
}

TEST(PytorchFunctions, LayerNorm) {
  for (const std::string name : {"layer_norm", "layer_norm_odd", "layer_norm_epsilon"}) {
    SCOPED_TRACE(name);
    const Golden golden("ops/golden/" + name);
    const Variable x = golden.leaf("input"), gain = golden.leaf("param.weight"),
                   shift = golden.leaf("param.bias");
    const std::vector<std::pair<std::string, Variable>> leaves{
        {"input", x}, {"param.weight", gain}, {"param.bias", shift}};
    expect_golden(golden, leaves, [&] { return layer_norm(x, gain, shift, golden.number("epsilon")); });
  }
}

// The norm of a sum of two, whose gradients are both that of the sum.
TEST(PytorchFunctions, ResidualLayerNorm) {
  const Golden golden("ops/golden/layer_norm");
  const Tensor sum = golden.tensor("input");
  Tensor part = Tensor::empty(sum.shape()), rest = Tensor::empty(sum.shape());
  for (int64_t i = 0; i < sum.numel(); ++i) {
    part.data()[i] = 0.25f * sum.data()[i];  // both exact
    rest.data()[i] = 0.75f * sum.data()[i];
  }
  const Variable x = Variable::parameter(part), branch = Variable::parameter(rest),
                 gain = golden.leaf("param.weight"), shift = golden.leaf("param.bias");
  expect_golden(golden, {{"input", x}, {"input", branch}, {"param.weight", gain}, {"param.bias", shift}},
                [&] { return residual_layer_norm(x, branch, {}, gain, shift, golden.number("epsilon")); });
}

TEST(PytorchFunctions, Embedding) {
  const Golden golden("ops/golden/embedding");
  const Variable table = golden.leaf("param.weight");
  expect_golden(golden, {{"param.weight", table}}, [&] {
    return embedding(table, golden.tensor("ids"), golden.tensor("sinusoids_halves"),
                     {.factor = golden.number("factor"), .position = golden.tensor("position")});
  });
}

TEST(PytorchFunctions, Linear) {
  const Golden golden("ops/golden/linear");
  const Variable x = golden.leaf("input"), weight = golden.leaf("param.weight"),
                 bias = golden.leaf("param.bias");
  const LinearWeights weights({weight}, {bias});
  expect_golden(golden, {{"input", x}, {"param.weight", weight}, {"param.bias", bias}},
                [&] { return linear(x, weights); });
}

double sum(const Tensor& x) { return std::accumulate(x.values().begin(), x.values().end(), 0.0); }

void expect_cross_entropy(const std::string& name, int64_t chunk_rows) {
  SCOPED_TRACE(concat(name, ", ", chunk_rows, " rows at a time"));
  const Golden golden("ops/golden/" + name);
  const Variable x = golden.leaf("input"), weight = golden.leaf("param.weight");
  std::vector<std::pair<std::string, Variable>> leaves{{"input", x}, {"param.weight", weight}};
  std::vector<Variable> biases;
  if (golden.has("param.bias")) {
    biases.push_back(golden.leaf("param.bias"));
    leaves.emplace_back("param.bias", biases[0]);
  }
  const LinearWeights weights({weight}, biases);
  const Tensor labels = golden.tensor("labels");
  expect_golden(golden, leaves, [&] {
    const CrossEntropyResult result =
        linear_cross_entropy(x, weights, labels,
                             {.label_smoothing = golden.number("label_smoothing"),
                              .factor = 1.0f / static_cast<float>(labels.numel()),
                              .chunk_rows = chunk_rows});
    EXPECT_NEAR(result.loss_sum, sum(golden.tensor("row_loss")), 1e-4);
    EXPECT_NEAR(result.nll_sum, sum(golden.tensor("row_nll")), 1e-4);
    return result.loss;
  });
}

TEST(PytorchFunctions, CrossEntropy) {
  for (const int64_t chunk_rows : {1, 7, 512}) {
    expect_cross_entropy("cross_entropy", chunk_rows);
    expect_cross_entropy("cross_entropy_smoothed", chunk_rows);
  }
}

}  // namespace
}  // namespace qkv
