#include "qkv/nn/embedding.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "qkv/ops/activation.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/norm.h"
#include "qkv/ops/require.h"

namespace qkv::nn {
namespace {

// One table per kind, width and device in the process, extended when a longer sequence arrives.
Tensor shared_sinusoids(PositionKind kind, int64_t count, int64_t d_model, Device device) {
  static std::mutex mutex;
  static auto* tables = new std::map<std::tuple<PositionKind, int64_t, Device>, Tensor>;
  const std::lock_guard lock(mutex);
  Tensor& table = (*tables)[{kind, d_model, device}];
  if (!table.defined() || table.rows() < count) {
    const int64_t longer = table.defined() ? 2 * table.rows() : 256;
    table = from_host(sinusoidal_positions(kind, std::max(count, longer), d_model), device);
  }
  return table;
}

Variable dropped(const Variable& x, const Dropout& dropout) {
  return dropout.active() ? activate(x, Activation::identity, dropout) : x;
}

// Positions by which a model's learned table is indexed if the caller gives none: i32 [tokens], on the host.
// A pad token takes the row before that of position 0.
Tensor own_positions(const PositionOptions& options, const Ragged& ids) {
  Tensor positions = position_ids(ids.offsets);
  if (options.pad_id < 0 || options.kind != PositionKind::learned) return positions;
  const Tensor tokens = to_host(ids.values);
  for (int64_t s = 0; s < ids.offsets.sequences(); ++s) {
    int32_t next = 0;
    for (int64_t i = ids.offsets.begin(s); i < ids.offsets.begin(s) + ids.offsets.length(s); ++i)
      positions.data<int32_t>()[i] = tokens.data<int32_t>()[i] == options.pad_id ? -1 : next++;
  }
  return positions;
}

// Whether positions are rows that are added to the tokens'.
bool are_added(PositionKind kind) {
  switch (kind) {
    case PositionKind::rotary:
    case PositionKind::relative:
    case PositionKind::alibi:
    case PositionKind::disentangled:
    case PositionKind::none:
      return false;
    case PositionKind::learned:
    case PositionKind::sinusoidal_interleaved:
    case PositionKind::sinusoidal_halves:
    case PositionKind::sinusoidal_inclusive:
      break;
  }
  return true;
}

// Table rows to be added, one per token.
struct AddedPositions {
  Variable table;
  Tensor rows;
};

AddedPositions added_positions(const EmbeddingConfig& config, const Parameter& learned, Tensor positions,
                               Device device) {
  const PositionOptions& options = config.positions;
  int64_t last = -1;
  for (const int64_t position : positions.values<int32_t>()) last = std::max(last, position);
  if (!are_added(options.kind)) return {};
  const int64_t places = options.max_positions - options.first_row;
  if (options.kind == PositionKind::learned && last >= places) {
    throw UsageError(concat("a sequence of ", last + 1, " tokens is longer than the model's ", places,
                            " learned positions"));
  }
  const bool shifts =
      options.kind == PositionKind::learned || options.kind == PositionKind::sinusoidal_inclusive;
  const int64_t first = shifts ? options.first_row : 0;
  if (first != 0) {
    positions = positions.clone();
    for (int32_t& row : positions.values<int32_t>()) row += static_cast<int32_t>(first);
  }
  if (options.kind == PositionKind::learned) return {learned.variable, std::move(positions)};
  return {shared_sinusoids(options.kind, last + first + 1, config.table_width(), device),
          std::move(positions)};
}

}  // namespace

Embedding::Embedding(const EmbeddingConfig& config, Weight table)
    : config_(config), table_(std::move(table)) {
  constexpr Initializer kNormal{Initializer::Kind::normal, 0.02f};
  if (config.positions.kind == PositionKind::learned) {
    positions_ = Parameter(Shape{config.positions.max_positions, config.table_width()}, kNormal);
  }
  if (config.token_types > 0) types_ = Parameter(Shape{config.token_types, config.table_width()}, kNormal);
  if (config.norm)
    norm_.emplace(NormOptions{.features = config.table_width(),
                              .kind = config.norm_kind,
                              .epsilon = config.epsilon,
                              .bias = config.norm_bias,
                              .weight = config.norm_weight});
  if (config.table_width() != config.d_model)
    projection_.emplace(LinearOptions{.inputs = config.table_width(), .outputs = config.d_model});
}

// Runs of ids below 0 take rows as they are.
Variable Embedding::with_rows(const Ragged& ids, ForwardContext& context, const Tensor& rows) const {
  if (are_added(config_.positions.kind) || types_.defined() || norm_ || projection_ || context.training) {
    throw UsageError(
        "embedding: rows: expected none, as positions, types, a norm or a projection follow, or in training, "
        "found some");
  }
  const Tensor given = to_host(as_ids("embedding", "ids", ids.values));
  Tensor tokens = given.clone();
  std::vector<std::pair<int64_t, int64_t>> runs;  // begin and length
  int64_t count = 0;
  for (int64_t i = 0; i < given.numel(); ++i) {
    if (given.data<int32_t>()[i] >= 0) continue;
    tokens.data<int32_t>()[i] = 0;
    if (runs.empty() || runs.back().first + runs.back().second != i) runs.emplace_back(i, 0);
    ++runs.back().second;
    ++count;
  }
  if (rows.rank() != 2 || rows.shape() != Shape{count, config_.d_model}) {
    throw ShapeError(concat("embedding: expected rows [", count, ", ", config_.d_model,
                            "] for the ids below 0, found ", rows.shape()));
  }
  Tensor sum = this->sum({tokens, ids.offsets}, context, {}).value();
  int64_t from = 0;
  for (const auto& [begin, length] : runs) {
    sum.slice_rows(begin, length).copy_from(rows.slice_rows(from, length));
    from += length;
  }
  return sum;
}

Variable Embedding::operator()(const Ragged& ids, ForwardContext& context, const TokenPlaces& places) const {
  if (places.rows.defined()) return with_rows(ids, context, places.rows);
  const Variable rows = sum(ids, context, places);
  return projection_ ? (*projection_)(rows, context) : rows;
}

Variable Embedding::sum(const Ragged& given, ForwardContext& context, const TokenPlaces& places) const {
  const Ragged ids{as_ids("embedding", "ids", given.values), given.offsets};
  if (ids.values.shape() != Shape{ids.offsets.tokens()}) {
    throw ShapeError(concat("embedding: expected ids [", ids.offsets.tokens(),
                            "], as the offsets say, found ", ids.values.shape()));
  }
  if (places.types.defined() && places.types.shape() != ids.values.shape()) {
    throw ShapeError(concat("embedding: expected a type of each of ", ids.offsets.tokens(), " ids, found ",
                            places.types.shape()));
  }
  const Dropout dropout = context.dropout(config_.dropout);
  const AddedPositions added =
      added_positions(config_, positions_,
                      places.positions.defined() ? places.positions : own_positions(config_.positions, ids),
                      table_.values().device());
  const bool last = !types_.defined() && !norm_;  // no further summand or norm follows
  Variable tokens =
      embedding(table_, ids.values, added.table,
                {.factor = config_.factor, .position = added.rows, .dropout = last ? dropout : Dropout{}});
  if (last) return tokens;
  Variable all = tokens;
  if (types_.defined()) {
    const Tensor types =
        places.types.defined() ? places.types : Tensor::zeros({ids.values.numel()}, DType::i32);
    const Variable of_types = embedding(types_.variable, types, {}, {});
    if (norm_) return dropped(norm_->add_norm(tokens, of_types, {}), dropout);
    all = residual(tokens, of_types);
  }
  return dropped(norm_ ? (*norm_)(all) : all, dropout);
}

void Embedding::visit(const ParameterVisitor& visitor) const {
  if (positions_.defined()) visitor("embed_positions.weight", positions_);
  if (types_.defined()) visitor("embed_types.weight", types_);
  if (norm_) visit_part(visitor, "embed_layer_norm", *norm_);
  if (projection_) visit_part(visitor, "embed_projection", *projection_);
}

}  // namespace qkv::nn
