#include "qkv/train/tasks/pretrain_bert/bert_start.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/nn/named_parameters.h"
#include "qkv/nn/positions.h"

namespace qkv::train {
namespace {

constexpr float kDeviation = 0.02f;

Tensor log_frequencies(const data::SentenceDocuments& text, int64_t vocabulary) {
  std::vector<double> counts(static_cast<size_t>(vocabulary), 1);
  for (const int32_t id : text.ids) {
    if (id < 0 || id >= vocabulary) {
      throw DataError(concat("text: expected ids below the vocabulary's ", vocabulary, ", found ", id));
    }
    ++counts[static_cast<size_t>(id)];
  }
  const double total = static_cast<double>(text.tokens() + vocabulary);
  Tensor result = Tensor::zeros({vocabulary});
  const auto values = result.values();
  for (size_t id = 0; id < counts.size(); ++id) values[id] = static_cast<float>(std::log(counts[id] / total));
  return result;
}

// The deviation of a sinusoid is 1 / sqrt(2).
Tensor small_sinusoids(int64_t positions, int64_t d_model) {
  Tensor result =
      nn::sinusoidal_positions(nn::PositionKind::sinusoidal_interleaved, positions, d_model).clone();
  for (float& value : result.values()) value *= kDeviation * std::numbers::sqrt2_v<float>;
  return result;
}

}  // namespace

void initialise_bert(const models::TextEncoder& model, const data::SentenceDocuments& text, uint64_t seed) {
  if (!model.config().masked_language) {
    throw UsageError("model: expected one with a masked-language head, found none");
  }
  nn::initialise(model, seed, {nn::Initializer::Kind::normal, kDeviation});
  for (const auto& [name, parameter] : nn::parameters_of(model)) {
    if (name == "masked_language.bias") {
      parameter.set_value({log_frequencies(text, parameter.shape[0])});
    } else if (name == "embed_positions.weight") {
      parameter.set_value({small_sinusoids(parameter.shape[0], parameter.shape[1])});
    }
  }
}

}  // namespace qkv::train
