#include <gtest/gtest.h>

#include "qkv/explain/cost.h"
#include "qkv/kernels/counters.h"
#include "qkv/nn/attention/attention.h"

namespace qkv::explain {
namespace {

// Runs one layer on equal sequences with the counters on.
int64_t counted(const AttentionCostOptions& options) {
  const nn::MultiheadAttention layer(
      {.d_model = options.d_model,
       .heads = options.heads,
       .key_heads = options.key_heads,
       .d_k = options.d_k,
       .d_v = options.d_v,
       .variant = {.bias = nn::ProjectionBiases::all(options.bias), .window = options.window}});
  nn::initialise(layer, 3);
  const auto rows = [&](int64_t length) {
    return Variable(Tensor::full({options.batch * length, options.d_model}, 0.25f));
  };
  nn::ForwardContext context;
  const nn::AttentionMask mask{.causal = options.causal};
  const Offsets queries = Offsets::uniform(options.batch, options.query_length);
  const uint64_t before = kernels::counted_macs();
  if (options.key_length == 0) {
    layer.self(rows(options.query_length), queries, mask, context);
  } else {
    const Variable memory = rows(options.key_length);
    layer.cross(rows(options.query_length), queries, memory, memory,
                Offsets::uniform(options.batch, options.key_length), mask, context);
  }
  const auto macs = static_cast<int64_t>(kernels::counted_macs() - before);
  // The layer always projects its output; there d_v is d_model / heads.
  const int64_t projection = options.batch * options.query_length * options.d_model * options.d_model;
  return options.output_projection ? macs : macs - projection;
}

TEST(AttentionCost, IsWhatOneLayerDoes) {
  const AttentionCostOptions plain{.d_model = 24, .heads = 3, .batch = 5, .query_length = 17};
  std::vector<AttentionCostOptions> all(11, plain);
  all[1].causal = true;
  all[2].output_projection = false;
  all[3].key_length = 11;
  all[4].d_k = 5;
  all[4].d_v = 7;
  all[5] = {.d_model = 24, .heads = 3, .batch = 2, .query_length = 6, .key_length = 9, .causal = true};
  all[6].bias = false;
  all[7].key_heads = 1;
  all[8].causal = true;
  all[8].window = 5;
  all[9] = {.d_model = 24, .heads = 4, .key_heads = 2, .batch = 2, .query_length = 6, .key_length = 9};
  all[10].causal = true;
  all[10].window = 40;
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(attention_cost(all[i]).macs, counted(all[i])) << i;
}

}  // namespace
}  // namespace qkv::explain
