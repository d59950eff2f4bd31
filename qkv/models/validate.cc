#include "qkv/models/validate.h"

#include <cmath>
#include <utility>

#include "qkv/base/error.h"

namespace qkv::models {

void require_at_least(const char* field, int64_t least, int64_t found, int64_t most) {
  if (found < least) throw UsageError(concat(field, ": expected at least ", least, ", found ", found));
  if (found > most) throw UsageError(concat(field, ": expected at most ", most, ", found ", found));
}

void require_rate(const char* field, float rate) {
  if (!(rate >= 0 && rate < 1)) throw UsageError(concat(field, ": expected a rate in [0, 1), found ", rate));
}

void require_epsilon(float epsilon) {
  if (!(epsilon >= 0 && epsilon < 1)) {
    throw UsageError(concat("epsilon: expected a small number, found ", epsilon));
  }
}

void validate_positions(const nn::PositionOptions& positions) {
  if (positions.kind == nn::PositionKind::rotary) {
    for (const auto& [field, number] :
         {std::pair("rotary_base", positions.rotary_base),
          std::pair("rotary_scaling.factor", positions.rotary_scaling.factor)}) {
      if (!(number > 0 && std::isfinite(number)))
        throw UsageError(concat(field, ": expected a number above 0, found ", number));
    }
  }
  if (positions.kind != nn::PositionKind::relative) return;
  const int64_t buckets = positions.buckets;
  require_at_least("position_buckets", 4, buckets);
  if (buckets % 2 != 0)
    throw UsageError(concat("position_buckets: expected an even number, found ", buckets));
  require_at_least("position_max_distance", buckets / 2 + 1, positions.max_distance);
}

namespace {

void validate_layer(const nn::LayerOptions& layer) {
  require_at_least("d_model", 1, layer.d_model);
  require_at_least("heads", 1, layer.heads, kMaxHeads);
  require_at_least("key_heads", 0, layer.key_heads);
  require_at_least("d_k", 0, layer.d_k);
  require_at_least("d_v", 0, layer.d_v);
  require_at_least("d_ff", 1, layer.d_ff);
  require_at_least("d_k of all heads", 0, layer.heads * layer.d_k);
  require_at_least("d_v of all heads", 0, layer.heads * layer.d_v);
  if ((layer.d_k == 0 || layer.d_v == 0) && layer.d_model % layer.heads != 0) {
    throw UsageError(concat("heads: expected a divisor of d_model ", layer.d_model, ", found ", layer.heads));
  }
  if (layer.key_heads > 0 && layer.heads % layer.key_heads != 0) {
    throw UsageError(
        concat("key_heads: expected a divisor of the ", layer.heads, " heads, found ", layer.key_heads));
  }
  require_at_least("window", 0, layer.attention.window);
  validate_positions(layer.attention.positions);
  layer.experts.validate();
  require_epsilon(layer.epsilon);
  require_rate("dropout", layer.dropout);
  require_rate("attention_dropout", layer.attention_dropout);
  require_rate("activation_dropout", layer.activation_dropout);
}

}  // namespace

void validate_stack(const nn::StackOptions& stack) {
  require_at_least("layers", 1, stack.size(), nn::kMaxLayers);
  require_rate("drop_path", stack.drop_path);
  int64_t experts = 0;
  for (int64_t i = 0; i < stack.size(); ++i) {
    validate_layer(stack.layer_at(i));
    experts += stack.layers[static_cast<size_t>(i)].experts.count;
  }
  require_at_least("experts of all layers", 0, experts, nn::kMaxExperts);
}

void validate_embedding(const nn::EmbeddingConfig& embedding, const nn::StackOptions& stack) {
  if (embedding.d_model != stack.d_model()) {
    throw UsageError(
        concat("embedding: expected the layers' d_model ", stack.d_model(), ", found ", embedding.d_model));
  }
  const nn::PositionOptions& positions = embedding.positions;
  if (positions.kind == nn::PositionKind::learned) {
    require_at_least("first_row", 0, positions.first_row);
    require_at_least("max_positions", positions.first_row + 1, positions.max_positions);
    // A pad token takes the row before the first.
    if (positions.pad_id >= 0) require_at_least("first_row", 1, positions.first_row);
  }
  if (!std::isfinite(embedding.factor))
    throw UsageError(concat("embedding factor: expected a finite number, found ", embedding.factor));
  require_at_least("token_types", 0, embedding.token_types);
  require_at_least("width", 0, embedding.width);
  require_epsilon(embedding.epsilon);
  require_rate("embedding_dropout", embedding.dropout);
}

}  // namespace qkv::models
