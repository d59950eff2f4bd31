#pragma once
// Results of both text and image pipelines: labels and embeddings.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qkv::pipelines {

// How hidden states [tokens, d_model] are pooled into one vector [d_model].
enum class Pooling : uint8_t {
  mean,           // mean over all tokens, special tokens included
  cls,            // the first token
  max,            // maximum over all tokens, per feature
  pooler,         // the model's pooler
  last_token,     // the last token
  weighted_mean,  // mean over all tokens with weights 1, 2, ... (Muennighoff 2022)
  mean_sqrt_len,  // sum over all n tokens, divided by sqrt(n)
};

struct EmbedOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = false;  // scale to L2 norm 1
  // The first of the vector's numbers, before they are scaled: of models trained for that (Kusupati et al.
  // 2022). Nothing: all.
  std::optional<int64_t> dimensions = {};
};

struct LabelProbability {
  std::string label;
  float probability = 0;  // regression models: the predicted value
};

// In every result, `error` is the reason why there is none (invalid UTF-8, text too long, not an image);
// empty on success.
struct Embedded {
  std::vector<float> values;  // [d_model], or as many as EmbedOptions::dimensions
  std::string error;
};

struct Classified {
  std::vector<LabelProbability> labels;  // all labels, most likely first
  std::string error;
};

}  // namespace qkv::pipelines
