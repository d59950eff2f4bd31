#include "qkv/base/error.h"
#include "qkv/explain/cost.h"

namespace qkv::explain {
namespace {

bool by_distance(const nn::LayerOptions& layer) {
  return layer.attention.positions.kind == nn::PositionKind::relative ||
         layer.attention.positions.kind == nn::PositionKind::alibi;
}

// Of all layers of a stack, including the shared table of relative positions.
Cost self_attention(const nn::StackOptions& stack, int64_t batch, int64_t length, bool causal) {
  const nn::LayerOptions& layer = stack.uniform();
  const Cost one = attention_cost({.d_model = layer.d_model,
                                   .heads = layer.heads,
                                   .key_heads = layer.key_heads,
                                   .d_k = layer.d_k,
                                   .d_v = layer.d_v,
                                   .batch = batch,
                                   .query_length = length,
                                   .causal = causal,
                                   .window = causal ? layer.attention.window : 0,
                                   .bias = layer.attention.bias.query,
                                   .by_distance = by_distance(layer)});
  const bool relative = layer.attention.positions.kind == nn::PositionKind::relative;
  return stack.size() * one +
         Cost{.parameters = relative ? layer.attention.positions.buckets * layer.heads : 0};
}

Cost cross_attention(const nn::LayerOptions& layer, const Workload& workload) {
  return attention_cost({.d_model = layer.d_model,
                         .heads = layer.heads,
                         .key_heads = layer.key_heads,
                         .d_k = layer.d_k,
                         .d_v = layer.d_v,
                         .batch = workload.batch,
                         .query_length = workload.target_length,
                         .key_length = workload.source_length,
                         .bias = layer.attention.bias.query});
}

Cost feed_forward(const nn::LayerOptions& layer, int64_t tokens) {
  return feed_forward_cost({.d_model = layer.d_model,
                            .d_ff = layer.d_ff,
                            .activation = layer.activation,
                            .tokens = tokens,
                            .bias = layer.feed_forward_bias,
                            .gated = layer.gated});
}

// The residual frames of a stack's sublayers, and the final norm.
Cost norms(const nn::StackOptions& stack, int64_t sublayers, int64_t tokens) {
  const nn::LayerOptions& layer = stack.uniform();
  const Cost frames = stack.size() * (sublayers * residual_cost(layer.d_model, tokens, layer.norm_kind));
  return stack.final_norm ? frames + norm_cost(layer.d_model, tokens, layer.norm_kind) : frames;
}

// A scaled table look-up plus positions. `table_rows` is 0 if another part counts the table.
Cost embedding(const models::TransformerConfig& config, int64_t table_rows, int64_t tokens) {
  const bool learned = config.positions == nn::PositionKind::learned;
  const bool positions = learned || config.positions == nn::PositionKind::sinusoidal_halves ||
                         config.positions == nn::PositionKind::sinusoidal_interleaved;
  const int64_t operations = (config.scale_embedding ? 1 : 0) + (positions ? 1 : 0);
  const Cost row{.parameters = 0, .macs = 0, .pointwise = operations, .activations = 1};
  const Cost position{.parameters = config.d_model};
  const Cost entry{.parameters = config.d_model, .matrix_parameters = config.d_model, .matrix_rows = 1};
  const Cost sum = config.d_model * (tokens * row) + table_rows * entry +
                   (learned ? config.max_positions + config.first_position : 0) * position;
  return config.embedding_norm ? sum + norm_cost(config.d_model, tokens, nn::NormKind::layer) : sum;
}

// Hidden states to logits. A tied table is counted by the embedding.
Cost output(const models::TransformerConfig& config, int64_t tokens) {
  Cost cost = linear_cost({.inputs = config.d_model,
                           .outputs = config.target_vocabulary,
                           .tokens = tokens,
                           .bias = config.output_bias});
  if (config.tying == models::Tying::two_way || config.tying == models::Tying::three_way) {
    cost.parameters = config.output_bias ? config.target_vocabulary : 0;
    cost.matrix_parameters = cost.matrix_rows = 0;
  }
  const int64_t inputs = config.scale_output ? tokens * config.d_model : 0;
  return cost + Cost{.pointwise = inputs, .activations = inputs};
}

}  // namespace

std::vector<PartCost> transformer_cost(const models::TransformerConfig& config, const Workload& workload) {
  config.validate();
  if (workload.batch < 1 || workload.source_length < 1 || workload.target_length < 1) {
    throw UsageError(concat("cost: expected batch, source length and target length of at least 1, found ",
                            workload.batch, ", ", workload.source_length, " and ", workload.target_length));
  }
  const nn::StackOptions encoder = config.encoder_stack(), decoder = config.decoder_stack();
  int64_t source_tokens = 0, target_tokens = 0;
  if (__builtin_mul_overflow(workload.batch, workload.source_length, &source_tokens) ||
      __builtin_mul_overflow(workload.batch, workload.target_length, &target_tokens)) {
    throw UsageError("cost: expected a batch of fewer tokens, found a number that overflows");
  }
  const int64_t source_rows = config.shares_embeddings() ? 0 : config.source_vocabulary;
  return {
      {"encoder.embedding", embedding(config, source_rows, source_tokens)},
      {"encoder.self_attention", self_attention(encoder, workload.batch, workload.source_length, false)},
      {"encoder.feed_forward", encoder.size() * feed_forward(encoder.first(), source_tokens)},
      {"encoder.norms", norms(encoder, 2, source_tokens)},
      {"decoder.embedding", embedding(config, config.target_vocabulary, target_tokens)},
      {"decoder.self_attention", self_attention(decoder, workload.batch, workload.target_length, true)},
      {"decoder.cross_attention", decoder.size() * cross_attention(decoder.first(), workload)},
      {"decoder.feed_forward", decoder.size() * feed_forward(decoder.first(), target_tokens)},
      {"decoder.norms", norms(decoder, 3, target_tokens)},
      {"output", output(config, target_tokens)},
  };
}

}  // namespace qkv::explain
