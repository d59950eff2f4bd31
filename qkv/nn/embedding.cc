#include "qkv/nn/embedding.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

namespace qkv::nn {
namespace {

// One table for each kind and width in the process, made longer when a longer sequence comes.
Tensor shared_sinusoids(PositionKind kind, int64_t count, int64_t d_model) {
  static std::mutex mutex;
  static auto* tables = new std::map<std::pair<PositionKind, int64_t>, Tensor>;
  const std::lock_guard lock(mutex);
  Tensor& table = (*tables)[{kind, d_model}];
  if (!table.defined() || table.rows() < count) {
    const int64_t longer = table.defined() ? 2 * table.rows() : 256;
    table = sinusoidal_positions(kind, std::max(count, longer), d_model);
  }
  return table;
}

}  // namespace

Embedding::Embedding(const EmbeddingConfig& config, Variable table)
    : config_(config), table_(std::move(table)) {
  if (config.positions == PositionKind::learned) {
    positions_ = Parameter(Shape{config.max_positions, config.d_model}, {Initializer::Kind::normal, 0.02f});
  }
}

Variable Embedding::operator()(const Ragged& ids, Pass& pass, int64_t first_position) const {
  const float factor = config_.scale ? std::sqrt(static_cast<float>(config_.d_model)) : 1.0f;
  return embedding(table_, ids.values, positions_for(first_position + ids.offsets.max_length()),
                   {.factor = factor,
                    .position = position_ids(ids.offsets, first_position),
                    .dropout = pass.dropout(config_.dropout)});
}

Variable Embedding::positions_for(int64_t count) const {
  switch (config_.positions) {
    case PositionKind::none:
      return {};
    case PositionKind::learned:
      if (count > config_.max_positions) {
        throw UsageError(concat("a sequence of ", count, " tokens is longer than the model's ",
                                config_.max_positions, " learned positions"));
      }
      return positions_.variable;
    case PositionKind::sinusoidal_interleaved:
    case PositionKind::sinusoidal_halves:
      break;
  }
  return shared_sinusoids(config_.positions, count, config_.d_model);
}

void Embedding::visit(const ParameterVisitor& visitor) const {
  if (positions_.defined()) visitor("embed_positions.weight", positions_);
}

}  // namespace qkv::nn
