#pragma once
// config.json of an encoder-decoder folder, in the words of Hugging Face's Marian where they suffice.

#include <string>
#include <vector>

#include "qkv/models/config.h"
#include "qkv/ops/weight_form.h"

namespace qkv::models {

// Whether Marian's layout can say all of it: post-norm with layer norms, sinusoidal positions in halves, d_k
// = d_v = d_model / heads, biases everywhere.
bool fits_marian(const TransformerConfig& config);

// The text of config.json: "model_type": "marian" where it fits, else "qkv", with every field under the key
// "qkv". int8 weights are qkv's own too: whoever knows Marian only would take them for numbers.
std::string config_json(const TransformerConfig& config, WeightForm weights = WeightForm::f32);

// Reads either. Throws DataError naming `path` and the key, what was expected and what was found.
TransformerConfig parse_config_json(const std::string& text, const std::string& path);

// Names under which other writers of Marian folders keep the same numbers: tables that are tied.
std::vector<std::string> tied_names(const TransformerConfig& config, const std::string& parameter);

}  // namespace qkv::models
