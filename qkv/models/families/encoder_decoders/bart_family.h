#pragma once
// What Marian, BART and its kin share: fields of config.json, and names of tensors.

#include <optional>

#include "qkv/models/hub/family.h"

namespace qkv::models {

// transformers' defaults, where the families differ. Nothing: a field is required.
struct BartDefaults {
  bool has_positions = true;  // the field max_position_embeddings
  int64_t max_positions = 1024;
  bool scale_embedding = false;
  double attention_dropout = 0;
  int64_t eos_id = 2;
  std::optional<int64_t> pad_id = 1;
  std::optional<int64_t> decoder_start_id = 2;  // nothing: pad_id
};

// Sizes, activation, rates of dropout and ids.
void bart_fields(const Fields& fields, TransformerConfig& config, const BartDefaults& usual);

}  // namespace qkv::models
