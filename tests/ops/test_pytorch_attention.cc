// scaled_dot_product_attention against PyTorch's, in every combination of masks (tests/golden/pytorch.py).

#include "qkv/ops/attention.h"
#include "tests/golden/pytorch.h"

namespace qkv {
namespace {

using testing::Golden;

class PytorchAttention : public ::testing::TestWithParam<std::string> {
 protected:
  PytorchAttention()
      : golden(GetParam()),
        query(golden.leaf("query")),
        key(golden.leaf("key")),
        value(golden.leaf("value")) {
    options.causal = golden.flag("causal");
    options.return_weights = golden.has("weights");
    if (golden.has("keep")) options.keep = golden.tensor("keep");
    if (golden.has("bias")) options.bias = golden.leaf("bias");
    if (golden.has_text("scale")) options.scale = golden.number("scale");
  }

  void expect_gradients() const {
    golden.expect("grad.query", query.grad().reshape(query.shape()));
    golden.expect("grad.key", key.grad().reshape(key.shape()));
    golden.expect("grad.value", value.grad().reshape(value.shape()));
    if (golden.has("bias")) golden.expect("grad.bias", options.bias.grad());
  }

  void expect_weights(const AttentionResult& result) const {
    if (!golden.has("weights")) return;
    const Tensor wanted = golden.tensor("weights");
    ASSERT_EQ(static_cast<int64_t>(result.weights.size()), wanted.dim(0));
    for (int64_t s = 0; s < wanted.dim(0); ++s) {
      const Shape shape{wanted.dim(1), wanted.dim(2), wanted.dim(3)};
      testing::expect_close(result.weights[static_cast<size_t>(s)], wanted.slice_rows(s, 1).reshape(shape),
                            concat("weights of sequence ", s));
    }
  }

  Golden golden;
  Variable query, key, value;
  AttentionOptions options;
};

TEST_P(PytorchAttention, Dense) {
  Tape tape;
  const AttentionResult result = scaled_dot_product_attention(query, key, value, options);
  golden.expect("output", result.output.value());
  expect_weights(result);
  tape.backward(weighted_sum(result.output, golden.tensor("grad_output")));
  expect_gradients();
}

// The same rows, given as a ragged batch.
TEST_P(PytorchAttention, Ragged) {
  const auto rows = [](const Variable& x) {
    return Variable::parameter(x.value().reshape({x.shape()[0] * x.shape()[1], x.shape()[2] * x.shape()[3]}));
  };
  const Shape q_shape = query.shape(), k_shape = key.shape(), v_shape = value.shape();
  const Variable q = rows(query), k = rows(key), v = rows(value);
  options.query_offsets = Offsets::uniform(q_shape[0], q_shape[1]);
  options.key_offsets = Offsets::uniform(k_shape[0], k_shape[1]);

  const Tensor without_tape = multihead_attention(q, k, v, q_shape[2], options).output.value();
  golden.expect("output", without_tape.reshape(golden.tensor("output").shape()));

  Tape tape;
  const AttentionResult result = multihead_attention(q, k, v, q_shape[2], options);
  for (int64_t i = 0; i < without_tape.numel(); ++i) {
    ASSERT_EQ(result.output.value().data()[i], without_tape.data()[i]) << "recording changes element " << i;
  }
  expect_weights(result);
  const Tensor upstream = golden.tensor("grad_output").reshape(result.output.shape());
  tape.backward(weighted_sum(result.output, upstream));
  golden.expect("grad.query", q.grad().reshape(q_shape));
  golden.expect("grad.key", k.grad().reshape(k_shape));
  golden.expect("grad.value", v.grad().reshape(v_shape));
  if (golden.has("bias")) golden.expect("grad.bias", options.bias.grad());
}

INSTANTIATE_TEST_SUITE_P(Golden, PytorchAttention,
                         ::testing::ValuesIn(testing::golden_cases("ops/golden/attention_")),
                         testing::case_name);

}  // namespace
}  // namespace qkv
