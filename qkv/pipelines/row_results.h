#pragma once
// From rows of hidden states and logits to results.

#include <span>

#include "qkv/models/problem_type.h"
#include "qkv/ops/variable.h"
#include "qkv/pipelines/results.h"
#include "qkv/tensor/ragged.h"

namespace qkv::pipelines {

// Rows of logits as probabilities, or as they are where they are none.
Tensor probabilities(const Variable& logits, models::ProblemType problem = models::ProblemType::single_label);

std::span<const float> row_of(const Tensor& matrix, int64_t row);

// The places of the largest numbers, the largest first and of equals the earlier.
std::vector<size_t> largest(std::span<const float> numbers, size_t count);

// All labels with their probabilities, the likeliest first.
std::vector<LabelProbability> ranked(std::span<const float> numbers, const std::vector<std::string>& labels);

// One vector of hidden states [tokens, features], by all tokens or the first.
std::vector<float> mean_of_rows(const Tensor& hidden);
std::vector<float> max_of_rows(const Tensor& hidden);
std::vector<float> first_row(const Tensor& hidden);

// To length 1; zeros stay.
void scale_to_one(std::vector<float>& vector);

// One vector of the hidden states of a text or an image. Throws UsageError where the model lacks the pooler.
template <class Model>
std::vector<float> embedded(const Tensor& hidden, const EmbedOptions& options, const Model& model) {
  std::vector<float> vector;
  switch (options.pooling) {
    case Pooling::mean:
      vector = mean_of_rows(hidden);
      break;
    case Pooling::cls:
      vector = first_row(hidden);
      break;
    case Pooling::max:
      vector = max_of_rows(hidden);
      break;
    case Pooling::pooler:
      vector = first_row(model.pooled(hidden, Offsets::uniform(1, hidden.rows())).value());
      break;
  }
  if (options.normalize) scale_to_one(vector);
  return vector;
}

}  // namespace qkv::pipelines
