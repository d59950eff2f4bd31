#pragma once
// A small translation model, quick to write and read.

#include <string>

#include "qkv/models/config.h"

namespace qkv::models {

inline TransformerConfig small(Tying tying = Tying::three_way) {
  TransformerConfig config;
  config.source_vocabulary = tying == Tying::three_way || tying == Tying::inputs ? 30 : 20;
  config.target_vocabulary = 30;
  config.tying = tying;
  config.d_model = 16;
  config.heads = 2;
  config.d_ff = 24;
  config.encoder_layers = config.decoder_layers = 2;
  config.pad_id = config.decoder_start_id = 29;
  return config;
}

// For the names of parameterized tests.
inline std::string name_of(Tying tying) {
  switch (tying) {
    case Tying::none:
      return "none";
    case Tying::two_way:
      return "two_way";
    case Tying::inputs:
      return "inputs";
    case Tying::three_way:
      break;
  }
  return "three_way";
}

}  // namespace qkv::models
