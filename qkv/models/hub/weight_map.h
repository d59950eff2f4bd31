#pragma once
// Maps a model's parameters to the tensors of a family's files, which differ in names and sometimes in
// layout.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/models/hub/tensor_files.h"
#include "qkv/models/hub/weights.h"

namespace qkv::models {

enum class Layout {
  same,
  transposed,  // stored as [inputs, outputs]
};

// A module's name here and in the family's files, without ".weight" and ".bias"; '#' stands for a layer's
// number.
struct WeightRule {
  std::string ours, theirs;
  Layout layout = Layout::same;
  // For a tensor that concatenates the weights (or biases) of several modules along the outputs: index of the
  // part, and number of parts, which have equal sizes.
  int part = 0, parts = 1;
  // The tensor's shape in the file, if it differs.
  Shape shape = {};
  // Names of tied tensors, tried in this order if the first is missing: files store one of them, or equal
  // ones.
  std::vector<std::string> also = {};
  // Names of other tensors, tried if all of these are missing.
  std::vector<std::string> otherwise = {};
  // May be missing from the files, which means zeros.
  bool optional = false;
  // The module in transformers, after which adapters are named, if it is not that of the tensor.
  std::string module = {};
};

struct WeightMap {
  std::vector<WeightRule> rules = {};
  // A prefix of the names that files may omit: the name of the model within its heads.
  std::string prefix = {};
  // Parameters without a rule have the same names in the files.
  bool others_same = false;
  // Suffixes of tensor names that files may have but are not read, because the model computes their contents.
  std::vector<std::string> computed = {};
};

// The tensor that contains a parameter, and its rule.
struct MappedName {
  std::string name;  // in the family's files: "bert.encoder.layer.0.attention.self.query.weight"
  WeightRule rule;
  std::string module;  // in transformers: "bert.encoder.layer.0.attention.self.query"
};

// Throws UsageError for a parameter without a rule, which is an error in the family's table.
MappedName mapped_name(const WeightMap& map, const std::string& parameter);

// The names of two tensors in the files that should be equal, as the parameter's tied tensors, but differ;
// empty: none.
std::pair<std::string, std::string> stored_apart(const TensorFiles& files, const WeightMap& map,
                                                 const std::string& parameter);

// Loads every parameter that `visit` enumerates with load_parameter(). Throws DataError for a tensor that is
// missing or of another shape, under its name in the file, and for tied tensors that differ. Surplus tensors
// are logged.
void load_parameters(const TensorFiles& files, const WeightMap& map, const StoredDType& says,
                     const std::function<void(const nn::ParameterVisitor&)>& visit,
                     const LoadOptions& options);

// The inverse: the tensors in the family's format, weights in their current dtypes. int8 requires equal names
// and layouts, because scales cannot be rearranged with the tensor.
std::vector<io::NamedTensor> stored_tensors(const WeightMap& map,
                                            const std::function<void(const nn::ParameterVisitor&)>& visit);

}  // namespace qkv::models
