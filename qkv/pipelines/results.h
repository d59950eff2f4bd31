#pragma once
// What encoders say about texts and images: labels and vectors.

#include <cstdint>
#include <string>
#include <vector>

namespace qkv::pipelines {

// How what was read becomes one vector.
enum class Pooling : uint8_t {
  mean,    // of its tokens' vectors, those that are put around or in front of it included
  cls,     // that of its first token
  max,     // the largest of all tokens', number by number
  pooler,  // what the model makes of the first token's, where it has a pooler
};

struct EmbedOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = false;  // to length 1
};

struct LabelProbability {
  std::string label;
  float probability = 0;  // of models that judge by a number in place of labels (regression): that number
};

// In all results `error` says why there is nothing else: a text that is not UTF-8 or longer than the model
// can read, a file that is no image.
struct Embedded {
  std::vector<float> values;  // [d_model]
  std::string error;
};

struct Classified {
  std::vector<LabelProbability> labels;  // the likeliest first
  std::string error;
};

}  // namespace qkv::pipelines
