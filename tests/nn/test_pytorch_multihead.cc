// MultiheadAttention against torch.nn.MultiheadAttention (tests/golden/pytorch.py): padded there, ragged
// here.

#include "qkv/nn/attention.h"
#include "tests/nn/pytorch_names.h"

namespace qkv::nn {
namespace {

using testing::Golden;
using testing::pack;

MultiheadAttentionOptions options_of(const Golden& golden) {
  return {.d_model = golden.integer("d_model"),
          .heads = golden.integer("heads"),
          .key_features = golden.has("key") ? golden.tensor("key").dim(2) : 0,
          .value_features = golden.has("value") ? golden.tensor("value").dim(2) : 0,
          .bias = golden.flag("bias")};
}

void expect_weights(const Golden& golden, const std::vector<Tensor>& found, const Offsets& queries,
                    const Offsets& keys) {
  const Tensor wanted = golden.tensor("weights");  // [batch, heads, queries, keys], padded
  ASSERT_EQ(static_cast<int64_t>(found.size()), wanted.dim(0));
  for (int64_t s = 0; s < wanted.dim(0); ++s) {
    const Tensor& weights = found[static_cast<size_t>(s)];
    ASSERT_EQ(weights.shape(), (Shape{wanted.dim(1), queries.length(s), keys.length(s)}));
    for (int64_t head = 0; head < wanted.dim(1); ++head) {
      for (int64_t q = 0; q < queries.length(s); ++q) {
        for (int64_t k = 0; k < keys.length(s); ++k) {
          const int64_t at = ((s * wanted.dim(1) + head) * wanted.dim(2) + q) * wanted.dim(3) + k;
          ASSERT_NEAR(weights.data()[(head * queries.length(s) + q) * keys.length(s) + k], wanted.data()[at],
                      1e-5f)
              << "sequence " << s << ", head " << head << ", query " << q << ", key " << k;
        }
      }
    }
  }
}

class PytorchMultihead : public ::testing::TestWithParam<std::string> {};

TEST_P(PytorchMultihead, OutputWeightsAndGradients) {
  const Golden golden(GetParam());
  const MultiheadAttention attention(options_of(golden));
  testing::load_parameters(golden, attention);

  const bool cross = golden.flag("cross");
  const Offsets queries = testing::offsets_of(golden, "lengths", golden.tensor("query"));
  const Offsets keys = cross ? testing::offsets_of(golden, "key_lengths", golden.tensor("key")) : queries;
  AttentionMask mask{.causal = golden.flag("causal")};
  if (golden.has("keep")) mask.keep = golden.tensor("keep");
  if (golden.has("bias")) mask.bias = golden.leaf("bias");
  std::vector<Tensor> weights;
  Pass pass;
  pass.observer = [&](const std::string&, const std::vector<Tensor>& seen) { weights = seen; };

  Tape tape;
  const Variable query = Variable::parameter(pack(golden.tensor("query"), queries));
  Variable key, value, output;
  if (cross) {
    key = Variable::parameter(pack(golden.tensor("key"), keys));
    value = Variable::parameter(pack(golden.tensor("value"), keys));
    output = attention.cross(query, queries, key, value, keys, mask, pass);
  } else {
    output = attention.self(query, queries, mask, pass);
  }
  testing::expect_close(output.value(), pack(golden.tensor("output"), queries), "output");
  expect_weights(golden, weights, queries, keys);

  tape.backward(weighted_sum(output, pack(golden.tensor("grad_output"), queries)));
  testing::expect_close(query.grad(), pack(golden.tensor("grad.query"), queries), "gradient of query");
  if (cross) {
    testing::expect_close(key.grad(), pack(golden.tensor("grad.key"), keys), "gradient of key");
    testing::expect_close(value.grad(), pack(golden.tensor("grad.value"), keys), "gradient of value");
  }
  if (golden.has("bias")) golden.expect("grad.bias", mask.bias.grad());
  testing::expect_parameter_gradients(golden, attention);
}

INSTANTIATE_TEST_SUITE_P(Golden, PytorchMultihead,
                         ::testing::ValuesIn(testing::golden_cases("nn/golden/multihead_")),
                         testing::case_name);

}  // namespace
}  // namespace qkv::nn
