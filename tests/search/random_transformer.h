#pragma once
// Small Transformers with random weights, and random sentences for them.

#include <memory>
#include <vector>

#include "qkv/base/philox.h"
#include "qkv/models/transformer.h"

namespace qkv::search::testing {

inline models::TransformerConfig small_config() {
  models::TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = 23;
  config.d_model = 16;
  config.encoder_layers = config.decoder_layers = 2;
  config.heads = 2;
  config.d_ff = 40;
  config.max_positions = 64;
  config.eos_id = 0;
  config.pad_id = 22;
  config.decoder_start_id = 22;
  return config;
}

// Weights larger than initial ones, so that outputs vary.
inline std::shared_ptr<models::Transformer> random_transformer(const models::TransformerConfig& config,
                                                               uint64_t seed) {
  auto model = std::make_shared<models::Transformer>(config);
  nn::initialise(*model, seed);
  uint64_t stream = 0;
  model->visit([&](const std::string& name, const nn::Parameter& parameter) {
    Variable variable = parameter.variable;
    RandomStream random(seed, ++stream);
    const bool vector = name.ends_with("bias");
    for (float& x : variable.mutable_value().values()) x = vector ? random.uniform() - 0.5f : 1.6f * x;
  });
  return model;
}

// Ids from 1 (0 is </s>) to `vocabulary` - 1; each sentence ends with </s>.
inline std::vector<std::vector<int32_t>> random_sentences(int count, int longest, int vocabulary,
                                                          uint64_t seed) {
  RandomStream random(seed);
  std::vector<std::vector<int32_t>> sentences(static_cast<size_t>(count));
  for (auto& sentence : sentences) {
    const uint64_t length = random.below(static_cast<uint64_t>(longest));
    for (uint64_t i = 0; i < length; ++i) {
      sentence.push_back(static_cast<int32_t>(1 + random.below(static_cast<uint64_t>(vocabulary - 1))));
    }
    sentence.push_back(0);
  }
  return sentences;
}

}  // namespace qkv::search::testing
