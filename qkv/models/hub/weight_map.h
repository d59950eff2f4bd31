#pragma once
// Where the files of a family keep what a model's parameters hold: other names, and now and then another
// layout.

#include <functional>
#include <string>
#include <vector>

#include "qkv/models/hub/tensor_files.h"
#include "qkv/models/hub/weights.h"

namespace qkv::models {

enum class Layout {
  same,
  transposed,  // a weight is [inputs, outputs]
};

// A module's name here and in the family's files, without ".weight" and ".bias"; '#' stands for the number of
// a layer.
struct WeightRule {
  std::string ours, theirs;
  Layout layout = Layout::same;
  // Of a tensor that is several modules' weights (or biases) side by side, along the outputs: which of how
  // many, all of the same size.
  int part = 0, parts = 1;
  // What is a matrix here and has other extents there.
  Shape shape = {};
  // Other names for the same numbers, looked for in this order where the first is not there: tables that are
  // tied, of which some writer kept another one.
  std::vector<std::string> also = {};
  // Files may lack it, which means zeros.
  bool optional = false;
};

struct WeightMap {
  std::vector<WeightRule> rules = {};
  // What names in the rules begin with and files may leave out: the name of the model inside its heads.
  std::string prefix = {};
  // Parameters that no rule speaks of have the same names there.
  bool others_same = false;
  // What the names of tensors end with that files may have and nobody reads, as the model computes what they
  // hold.
  std::vector<std::string> computed = {};
};

// Gives every parameter that `visit` enumerates its numbers, as load_parameter() does. Throws DataError for a
// tensor that is missing or of another shape, naming it as the files do. What the files have beyond that is
// told to the log.
void load_parameters(const TensorFiles& files, const WeightMap& map, const StoredDType& says,
                     const std::function<void(const nn::ParameterVisitor&)>& visit,
                     const LoadOptions& options);

// The other way: the tensors as the family's files have them, weights in the form that they have: int8 only
// where names and layouts are the same, as scales have no place in a tensor that lies otherwise.
std::vector<io::NamedTensor> stored_tensors(const WeightMap& map,
                                            const std::function<void(const nn::ParameterVisitor&)>& visit);

}  // namespace qkv::models
