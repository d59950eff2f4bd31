#pragma once
// Results of both text and image pipelines: labels and embeddings.

#include <cstdint>
#include <string>
#include <vector>

namespace qkv::pipelines {

// How hidden states [tokens, d_model] are pooled into one vector [d_model].
enum class Pooling : uint8_t {
  mean,    // mean over all tokens, special tokens included
  cls,     // the first token
  max,     // maximum over all tokens, per feature
  pooler,  // the model's pooler, applied to the first token
};

struct EmbedOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = false;  // scale to L2 norm 1
};

struct LabelProbability {
  std::string label;
  float probability = 0;  // regression models: the predicted value
};

// In every result, `error` is the reason why there is none (invalid UTF-8, text too long, not an image);
// empty on success.
struct Embedded {
  std::vector<float> values;  // [d_model]
  std::string error;
};

struct Classified {
  std::vector<LabelProbability> labels;  // all labels, most likely first
  std::string error;
};

}  // namespace qkv::pipelines
