#pragma once
// Results that pipelines of texts and of images share: labels and vectors.

#include <cstdint>
#include <string>
#include <vector>

namespace qkv::pipelines {

// How hidden states [tokens, d_model] become one vector [d_model].
enum class Pooling : uint8_t {
  mean,    // the mean over all tokens, those around the text or in front of the patches included
  cls,     // the first token's
  max,     // the maximum over all tokens, feature by feature
  pooler,  // the model's pooler, applied to the first token's
};

struct EmbedOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = false;  // to an L2 norm of 1
};

struct LabelProbability {
  std::string label;
  float probability = 0;  // of regression models: the predicted value
};

// In every result, `error` says why there is no result (a text that is not UTF-8 or too long, a file that is
// not an image); empty: there is one.
struct Embedded {
  std::vector<float> values;  // [d_model]
  std::string error;
};

struct Classified {
  std::vector<LabelProbability> labels;  // all, the most likely first
  std::string error;
};

}  // namespace qkv::pipelines
