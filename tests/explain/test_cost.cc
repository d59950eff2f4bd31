#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "qkv/explain/cost.h"
#include "qkv/kernels/counters.h"
#include "qkv/models/transformer.h"
#include "qkv/nn/experts.h"

namespace qkv::explain {
namespace {

TEST(AttentionCost, IsTheTextbooksSum) {
  const int64_t d = 512, batch = 32, length = 1024;
  AttentionCostOptions options{.d_model = d, .heads = 8, .batch = batch, .query_length = length};
  EXPECT_EQ(attention_cost(options).macs, batch * length * 4 * d * d + 2 * batch * length * length * d);
  EXPECT_EQ(attention_cost(options).macs, 68719476736);
  EXPECT_EQ(attention_cost(options).parameters, 4 * d * d + 4 * d);
  options.output_projection = false;
  EXPECT_EQ(attention_cost(options).macs, 60129542144);
  options.bias = false;
  EXPECT_EQ(attention_cost(options).parameters, 3 * d * d);
}

// By hand: 32 x 1024 tokens of width 512 are 2^15 rows, so that a projection is 2^15 2^9 2^9 = 2^33 and each
// of Q K^T and P V is 2^5 2^10 2^10 2^9 = 2^34, whatever the number of heads.
TEST(AttentionCost, ItsPartsAreTheProducts) {
  const int64_t projection = int64_t{1} << 33, product = int64_t{1} << 34;
  for (const int64_t heads : {1, 8}) {
    AttentionCostOptions options{.d_model = 512, .heads = heads, .batch = 32, .query_length = 1024};
    const auto macs = [&] {
      std::vector<std::pair<std::string, int64_t>> result;
      for (const auto& [name, cost] : attention_parts(options)) result.emplace_back(name, cost.macs);
      return result;
    };
    std::vector<std::pair<std::string, int64_t>> expected{
        {"q_proj", projection}, {"k_proj", projection},    {"v_proj", projection},
        {"scores", product},    {"weighted_sum", product}, {"out_proj", projection}};
    EXPECT_EQ(macs(), expected) << heads << " heads";
    options.output_projection = false;
    expected.pop_back();
    EXPECT_EQ(macs(), expected) << heads << " heads";
  }
  // 3 queries and 5 keys of 7 features, 2 heads with d_k = 4 and d_v = 6.
  const std::vector<PartCost> parts =
      attention_parts({.d_model = 7, .heads = 2, .d_k = 4, .d_v = 6, .query_length = 3, .key_length = 5});
  const std::vector<int64_t> expected{3 * 7 * 8, 5 * 7 * 8, 5 * 7 * 12, 2 * 15 * 4, 2 * 15 * 6, 3 * 12 * 7};
  ASSERT_EQ(parts.size(), expected.size());
  for (size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(parts[i].cost.macs, expected[i]) << parts[i].name;
}

TEST(AttentionCost, CountsFreeSizesAndMemories) {
  // 3 queries and 5 keys of 7 features, 2 heads with d_k = 4 and d_v = 6.
  const Cost cost = attention_cost(
      {.d_model = 7, .heads = 2, .d_k = 4, .d_v = 6, .batch = 11, .query_length = 3, .key_length = 5});
  EXPECT_EQ(cost.macs, 11 * (3 * 7 * 8 + 5 * 7 * 8 + 5 * 7 * 12 + 2 * 3 * 5 * (4 + 6) + 3 * 12 * 7));
  EXPECT_EQ(cost.parameters, 8 * 7 + 8 + 8 * 7 + 8 + 12 * 7 + 12 + 7 * 12 + 7);
  EXPECT_EQ(cost.pointwise, 11 * (3 * 8 + 5 * 8 + 5 * 12 + 2 * 3 * 5 * 5 + 3 * 7));
  EXPECT_EQ(cost.activations, 11 * (3 * 8 + 5 * 8 + 5 * 12 + 3 * 12 + 3 * 2 + 3 * 7));
  EXPECT_EQ(cost.flops(), 2 * cost.macs + cost.pointwise);
  EXPECT_EQ(cost.weight_bytes(), 4 * cost.parameters);
}

TEST(AttentionCost, CausalCountsThePairsThatMayAttend) {
  for (int64_t queries = 1; queries <= 6; ++queries) {
    for (int64_t keys = 1; keys <= 6; ++keys) {
      int64_t pairs = 0;
      for (int64_t i = 0; i < queries; ++i) {
        for (int64_t j = 0; j < keys; ++j) pairs += j <= i + keys - queries;
      }
      EXPECT_EQ(attended_pairs(queries, keys, true), pairs) << queries << " " << keys;
      EXPECT_EQ(attended_pairs(queries, keys, false), queries * keys);
    }
  }
}

TEST(FeedForwardCost, CountsBothMapsAndTheActivation) {
  const Cost relu = feed_forward_cost({.d_model = 3, .d_ff = 5, .tokens = 7});
  EXPECT_EQ(relu.macs, 7 * 2 * 3 * 5);
  EXPECT_EQ(relu.parameters, 2 * 3 * 5 + 5 + 3);
  EXPECT_EQ(relu.pointwise, 7 * (5 + 5 + 3));
  EXPECT_EQ(relu.activations, 7 * (5 + 3));
  EXPECT_GT(feed_forward_cost({.d_model = 3, .d_ff = 5, .activation = Activation::gelu_exact, .tokens = 7})
                .pointwise,
            relu.pointwise);
}

// Of 6 experts a token multiplies by 2.
TEST(FeedForwardCost, OfExpertsIsThatOfThoseThatATokenHas) {
  const Cost cost = feed_forward_cost({.d_model = 8,
                                       .d_ff = 5,
                                       .activation = Activation::silu,
                                       .tokens = 7,
                                       .bias = false,
                                       .gated = true,
                                       .experts = 6});
  const nn::Experts experts(
      {.d_model = 8, .d_ff = 5, .activation = Activation::silu, .gated = true, .bias = false}, {.count = 6});
  EXPECT_EQ(cost.parameters, nn::count_parameters(experts));
  EXPECT_EQ(cost.parameters, 6 * 3 * 8 * 5 + 6 * 8);
  EXPECT_EQ(cost.active_parameters(), 2 * 3 * 8 * 5 + 6 * 8);
  EXPECT_EQ(cost.matrix_parameters, 6 * 3 * 8 * 5);
  EXPECT_EQ(cost.matrix_rows, 6 * (5 + 5 + 8));
  nn::initialise(experts, 1);
  const uint64_t before = kernels::counted_macs();
  nn::ForwardContext context;
  experts(Tensor::full({7, 8}, 0.5f), context);
  EXPECT_EQ(cost.macs, static_cast<int64_t>(kernels::counted_macs() - before));
  EXPECT_EQ((3 * cost).inactive_parameters, 3 * 4 * 3 * 8 * 5);
  for (const int64_t chosen : {0, 7})
    EXPECT_THROW(feed_forward_cost({.experts = 6, .experts_per_token = chosen}), UsageError);
}

models::TransformerConfig preset(const std::string& name, int64_t vocabulary) {
  models::TransformerConfig config = models::preset(name);
  config.source_vocabulary = config.target_vocabulary = vocabulary;
  return config;
}

std::vector<models::TransformerConfig> configurations() {
  std::vector<models::TransformerConfig> configs;
  for (const std::string& name : models::preset_names()) configs.push_back(preset(name, 1000));
  models::TransformerConfig odd;
  odd.source_vocabulary = 17;
  odd.target_vocabulary = 23;
  odd.d_model = 12;
  odd.heads = 3;
  odd.d_k = 5;
  odd.d_v = 2;
  odd.d_ff = 20;
  odd.decoder_heads = 2;
  odd.decoder_d_ff = 28;
  odd.embedding_norm = true;
  odd.first_position = 2;
  odd.encoder_layers = 2;
  odd.decoder_layers = 3;
  odd.norm = nn::NormPlacement::pre;
  odd.positions = nn::PositionKind::learned;
  odd.max_positions = 40;
  odd.activation = Activation::silu;
  odd.tying = models::Tying::none;
  configs.push_back(odd);
  odd.tying = models::Tying::two_way;
  odd.norm = nn::NormPlacement::post;
  odd.final_norm = true;
  configs.push_back(odd);
  models::TransformerConfig t5;
  t5.source_vocabulary = t5.target_vocabulary = 29;
  t5.d_model = 12;
  t5.heads = 3;
  t5.d_k = t5.d_v = 5;
  t5.d_ff = 20;
  t5.encoder_layers = 2;
  t5.decoder_layers = 3;
  t5.norm = nn::NormPlacement::pre;
  t5.norm_kind = nn::NormKind::rms;
  t5.positions = nn::PositionKind::relative;
  t5.activation = Activation::gelu_tanh;
  t5.gated = true;
  t5.bias = t5.output_bias = false;
  t5.scale_embedding = t5.scale_attention = false;
  t5.tying = models::Tying::inputs;
  configs.push_back(t5);
  t5.gated = false;
  t5.tying = models::Tying::three_way;
  t5.scale_output = true;
  configs.push_back(t5);
  return configs;
}

TEST(TransformerCost, CountsTheParametersThatTheModelHas) {
  for (const models::TransformerConfig& config : configurations()) {
    const models::Transformer model(config);
    const Cost cost = total(transformer_cost(config, {}));
    EXPECT_EQ(cost.parameters, nn::count_parameters(model)) << config.d_model;
    int64_t formed = 0, rows = 0;
    model.visit([&](const std::string&, const nn::Parameter& parameter) {
      if (!parameter.allows_quantized()) return;
      formed += parameter.shape.numel();
      rows += parameter.shape[0];
    });
    EXPECT_EQ(cost.weight_bytes(DType::bf16), 4 * cost.parameters - 2 * formed) << config.d_model;
    EXPECT_EQ(cost.weight_bytes(DType::i8), 4 * cost.parameters - 3 * formed + 4 * rows) << config.d_model;
  }
}

TEST(TransformerCost, BaseIsThePapers) {
  const auto parameters = [](const std::string& name) {
    return static_cast<double>(total(transformer_cost(preset(name, 37000), {})).parameters);
  };
  EXPECT_NEAR(parameters("base"), 65e6, 3e6);  // Table 3
  EXPECT_NEAR(parameters("big"), 213e6, 4e6);
}

Ragged tokens(int64_t batch, int64_t length, int32_t vocabulary) {
  std::vector<int32_t> ids(static_cast<size_t>(batch * length));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 + 3) % vocabulary;
  return {Tensor::from(ids, {batch * length}), Offsets::uniform(batch, length)};
}

// Compares with the counts of the model's own kernels.
TEST(TransformerCost, CountsTheMultiplicationsThatARunMakes) {
  for (models::TransformerConfig config : configurations()) {
    if (config.d_model > 300) continue;  // the same code, but slower
    const models::Transformer model(config);
    nn::initialise(model, 1);
    const Workload workload{.batch = 3, .source_length = 9, .target_length = 14};
    const Ragged source = tokens(3, 9, static_cast<int32_t>(config.source_vocabulary));
    const Ragged target = tokens(3, 14, static_cast<int32_t>(config.target_vocabulary));
    const uint64_t before = kernels::counted_macs();
    nn::ForwardContext context;
    const nn::Memory memory = model.encode(source, context);
    model.logits()(model.decode(target, memory, context));
    const auto counted = static_cast<int64_t>(kernels::counted_macs() - before);
    EXPECT_EQ(total(transformer_cost(config, workload)).macs, counted) << config.d_model;
  }
}

TEST(TransformerCost, PartsGrowWithTheWorkloadAsTheyShould) {
  const models::TransformerConfig config = preset("tiny", 100);
  const auto once = transformer_cost(config, {.batch = 2, .source_length = 8, .target_length = 8});
  const auto more = transformer_cost(config, {.batch = 6, .source_length = 8, .target_length = 8});
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(3 * once[i].cost.macs, more[i].cost.macs) << once[i].name;
    EXPECT_EQ(3 * once[i].cost.activations, more[i].cost.activations) << once[i].name;
    EXPECT_EQ(once[i].cost.parameters, more[i].cost.parameters) << once[i].name;
  }
}

TEST(Cost, RefusesSizesItCannotCount) {
  EXPECT_THROW(attention_cost({.d_model = 512, .heads = 7}), UsageError);
  EXPECT_NO_THROW(attention_cost({.d_model = 512, .heads = 7, .d_k = 3, .d_v = 3}));
  EXPECT_THROW(attention_cost({.d_model = 0}), UsageError);
  EXPECT_THROW(attention_cost({.heads = 0}), UsageError);
  EXPECT_THROW(attention_cost({.batch = -1}), UsageError);
  EXPECT_THROW(attention_cost({.query_length = 0}), UsageError);
  EXPECT_THROW(attention_cost({.key_length = -3}), UsageError);
  EXPECT_THROW(attention_cost({.query_length = int64_t{1} << 40}), UsageError);
  EXPECT_THROW(feed_forward_cost({.d_ff = 0}), UsageError);
  const models::TransformerConfig config = preset("tiny", 100);
  EXPECT_THROW(transformer_cost(config, {.batch = 0}), UsageError);
  EXPECT_THROW(transformer_cost(config, {.batch = int64_t{1} << 40, .source_length = int64_t{1} << 40}),
               UsageError);
}

}  // namespace
}  // namespace qkv::explain
