#pragma once
// Converts rows of hidden states and logits to results.

#include <filesystem>
#include <optional>
#include <span>

#include "qkv/models/problem_type.h"
#include "qkv/ops/variable.h"
#include "qkv/pipelines/results.h"
#include "qkv/tensor/ragged.h"

namespace qkv::pipelines {

// Logits on the host. Throws NumericError for NaN and infinity.
Tensor finite_logits(const Variable& logits);

// Probabilities of rows of logits; regression outputs are returned unchanged. Throws NumericError for NaN and
// infinity.
Tensor probabilities(const Variable& logits, models::ProblemType problem = models::ProblemType::single_label);

std::span<const float> row_of(const Tensor& matrix, int64_t row);

// Indices of the `count` largest values in descending order; ties in ascending order of index.
std::vector<size_t> largest(std::span<const float> values, size_t count);

// All labels with their probabilities, most likely first.
std::vector<LabelProbability> ranked(std::span<const float> probabilities,
                                     const std::vector<std::string>& labels);

// Pools hidden states [tokens, features] into one vector [features].
// Other poolings than the model's pooler.
std::vector<float> pooled_rows(const Tensor& hidden, Pooling pooling);

// Scales to L2 norm 1; a zero vector is unchanged.
void scale_to_one(std::vector<float>& vector);

// Throws ShapeError unless hidden is f32 [tokens, d_model] with at least one token; `tokens`: nothing if any
// number is right.
void require_hidden(const Tensor& hidden, std::optional<int64_t> tokens, int64_t d_model);

// Throws NumericError for NaN and infinity.
void require_finite(const Tensor& hidden);

// Throws DataError naming the folder's config.json unless the model has the head: "a text classification".
void require_head(bool has, const std::filesystem::path& folder, const char* head);

// The first `dimensions` numbers of the vector, scaled if the options say so.
std::vector<float> finished(std::vector<float> vector, const EmbedOptions& options);

// Throws UsageError if the options select a pooler and the model has none, or dimensions beyond the vector's
// width.
void require_vector(const EmbedOptions& options, bool model_has_pooler, int64_t width);

// The pooled hidden states [tokens, d_model] of a text or an image. Throws NumericError for hidden states
// that are not finite.
template <class Model>
std::vector<float> pooled(const Tensor& hidden, const EmbedOptions& options, const Model& model) {
  require_hidden(hidden, std::nullopt, model.config().encoder.d_model());
  require_finite(hidden);
  if (options.pooling != Pooling::pooler) return pooled_rows(hidden, options.pooling);
  return pooled_rows(model.pooled(hidden, Offsets::uniform(1, hidden.rows())).value(), Pooling::cls);
}

}  // namespace qkv::pipelines
